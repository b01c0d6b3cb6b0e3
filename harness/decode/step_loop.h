// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The step loop, written once for every method: plan, rows, layers, confidence, decisions. It
// counts forwards, rows, tokens, keys and FLOPs; no method reports its own work.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "harness/decode/batch.h"
#include "harness/decode/kv_cache.h"
#include "harness/decode/policies.h"
#include "harness/model/transformer.h"

namespace unmask {

// What an observer sees of one step, after the decisions and before they are committed to the
// canvas. Views stay valid during the call only.
struct step_view {
  const batch& state;
  const step_plan& plan;
  row_set entered;             // rows at layer 0
  const std::int32_t* tokens;  // their input ids
  row_set left;                // rows that reached the last layer
  const candidate_lists& candidates;
  tensor_view head_input;  // [left.rows, D] final-norm output
};

// Optional spectator of the loop: golden replay, --watch, probes. Costs nothing when absent.
class step_observer {
 public:
  virtual ~step_observer() = default;
  virtual void on_step(const step_view& step) = 0;
};

struct loop_limits {
  std::int32_t sequences = 1;   // places in the batch
  std::int32_t max_length = 0;  // positions per sequence, prompt and canvas
  std::int32_t kv_pages = 0;    // 0: enough for every place at max_length
};

class step_loop {
 public:
  // The model must have been made with max_rows >= sequences * max_length of the limits.
  step_loop(const transformer& model, recipe method, const loop_limits& limits);
  ~step_loop();

  // Positions a request would take under this method.
  std::int32_t length_of(const sequence_request& request) const;
  // Put a request into a free place; returns it, or -1 when no place or no page is free.
  std::int32_t admit(const sequence_request& request);
  // One forward for all active sequences and its decisions. False when nothing is active.
  bool step();
  // Free a finished (or cancelled) sequence's place and pages.
  void release(std::int32_t place);

  const batch& state() const;
  const kv_cache& cache() const;
  // Most memory that K/V and stored layer outputs took together, in bytes.
  std::size_t peak_cache_bytes() const;
  // Generated tokens of place s up to output_end.
  std::vector<std::int32_t> output(std::int32_t place) const;
  // Everything after the prompt, masks included.
  std::vector<std::int32_t> canvas(std::int32_t place) const;
  void observe(step_observer* observer);  // null: nobody watches

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace unmask
