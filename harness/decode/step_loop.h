// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The step loop, written once for every method: plan, rows, layers, confidence, decisions. It
// counts forwards, rows, tokens, keys and FLOPs; no method reports its own work.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "harness/decode/batch.h"
#include "harness/decode/captured_graphs.h"
#include "harness/decode/decision.h"
#include "harness/decode/kv_cache.h"
#include "harness/decode/pass_totals.h"
#include "harness/decode/policies.h"
#include "harness/model/transformer.h"

namespace unmask {

// What an observer sees of one step, after the decisions and before they are committed to the
// canvas. Views stay valid during the call only.
struct step_view {
  const batch& state;
  const step_choice& plan;
  row_set entered;             // rows at layer 0
  const std::int32_t* tokens;  // their input ids
  row_set left;                // rows that reached the last layer
  const candidate_lists& candidates;
  tensor_view head_input;  // [left.rows, D] final-norm output
  // What the step decided, by sequence and in the order of its candidates.
  std::span<const decision_event> decisions;
};

// What an observer sees of one layer: the rows that survived narrow(), with their K/V written and
// their keys chosen, before their attention. Views stay valid during the call only.
struct layer_view {
  const batch& state;
  const step_choice& plan;
  std::int32_t layer = 0;
  row_set rows;
  tensor_view q;     // [R, heads, dim], after RoPE
  tensor_view k, v;  // [R, kv_heads, dim], k after RoPE
  paged_kv cache;
  const key_set& keys;
  float scale = 1;  // of the scores
  // The position of each slot of the only sequence that the method moved there (recipe_views::
  // slot_positions); slots beyond its end, or all, are as their rows wrote them.
  std::vector<std::int32_t> slot_position;
};

// Optional spectator of the loop: golden replay, --watch, probes. Costs nothing when absent.
class step_observer {
 public:
  virtual ~step_observer() = default;
  virtual void on_step(const step_view& step) = 0;
  // Layers are shown only to observers that ask for them, in order, before the step they belong to.
  virtual bool wants_layers() const { return false; }
  virtual void on_layer(const layer_view& layer) { (void)layer; }
};

struct loop_limits {
  std::int32_t sequences = 1;   // places in the batch
  std::int32_t max_length = 0;  // positions per sequence, prompt and canvas
  // Pages per stored layer for all places together; 0: enough for every place at max_length.
  std::int32_t kv_pages = 0;
  // Plan, select, decide and count, but leave out the layers: for recipes whose decisions come from
  // elsewhere than activations (harness/engine/trajectory.h). FLOPs and keys are then not counted.
  // Usage error for a recipe whose rows or keys depend on activations.
  bool dry = false;
  std::int32_t picture_rows = 0;  // of the pictures of one request at most
};

class step_loop {
 public:
  // The model must have been made with max_rows >= sequences * max_length of the limits.
  step_loop(const transformer& model, recipe method, const loop_limits& limits);
  ~step_loop();

  // Positions a request would take under this method.
  std::int32_t length_of(const sequence_request& request) const;
  // Put a request into a free place; returns it, or -1 when no place or no page is free. Pages are
  // taken for its first `slots` positions (0: all); the caller then asks for more with reserve().
  // A token k below 0 of the prompt is row -1 - k of `pictures` [n, D] f32 in the backend's memory; they
  // are copied. Usage error for one that no row is there for.
  std::int32_t admit(const sequence_request& request, std::int32_t slots = 0,
                     const tensor_view& pictures = {});
  // Pages for slots [0, slots) of a place, clipped to its length. False when no page is free.
  bool reserve(std::int32_t place, std::int32_t slots);
  // True when the request would have pages enough in an empty loop.
  bool fits(const sequence_request& request) const;
  // One forward for all active sequences and its decisions. False when nothing is active.
  bool step();
  // The same for the places named in `parts` [sequences]. A finished place takes no step.
  bool step(const schedule_action* parts);
  // Free a finished (or cancelled) sequence's place and pages.
  void release(std::int32_t place);

  const batch& state() const;
  const kv_cache& cache() const;
  // Since the loop was made. What capturing took is in no other time: an engine does that when it
  // starts.
  pass_totals totals() const;
  // Segments of layers that the backend captured and replayed; all 0 where it captures nothing.
  const graph_counts& graphs() const;
  pace_policy& pace() const;
  const step_choice& plan() const;                  // of the last step
  std::int32_t rows_entered(std::int32_t s) const;  // by the last step, at layer 0
  step_outcome outcome(std::int32_t s) const;       // of the last step
  std::int32_t candidates(std::int32_t s) const;    // of the last step
  // Generated tokens of place s up to output_end.
  std::vector<std::int32_t> output(std::int32_t place) const;
  // Everything after the prompt, masks included.
  std::vector<std::int32_t> canvas(std::int32_t place) const;
  void observe(step_observer* observer);  // null: there is none

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace unmask
