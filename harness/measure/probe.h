// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes: the papers' motivation figures on the trajectory of any method. They watch a pass of their
// own, one request after the other, so that no measured time contains it. The pass is written down
// here (capture.h) and computed on in the package (harness/python/unmask/probes).
//
//   confidence   Focus-dLLM Fig. 1: confidence now against one step before; recall of decided tokens
//   attention    Focus-dLLM Figs. 2, 8, Sparse-dLLM Figs. 2, 7: maps, sinks, their overlap
//   kv_change    Sparse-dLLM Fig. 4: change of K and V outside the block between steps
//   stagnation   Ada-DLM Figs. 1, 2, 4: stagnation set, missed stable tokens, post-peak decline and
//                which token of a declined position scores better
//   contradiction  decided tokens that a decode of one token per forward decides otherwise, by
//                confidence; which of the two answers scores better
//   peak_oracle  the requests again, each position decided at the step where it was most confident:
//                what a rule that knew the future could reach
//   decoding     FOCUS Figs. 2, 9-11: tokens decided per step, rows computed per token
//   importance   FOCUS Figs. 3, 4, 12-14: importance by layer, its difference against decodability;
//                appendix D: gamma of that difference, and the eviction error it is to bound
//   decode_trace the first requests forward by forward: rows, dropped rows, keys, candidates
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/decode/step_loop.h"
#include "harness/engine/trajectory.h"

namespace unmask {

namespace probes {
class capture;
}

struct probe_settings {
  std::vector<std::string> names;
  double tau = 0.9;          // confidence below which a stable token counts as missed
  double margin = 0.05;      // drop that counts as a decline
  double sink_share = 0.05;  // of the keys: how many count as sinks
  std::int64_t every = 8;    // attention: look at every so many steps
  std::int64_t limit = 0;    // requests; 0: all of the workload
  // contradiction: tokens per block of the reference on bidirectional models; 0: one block.
  std::int64_t reference_block = 32;
  bool operator==(const probe_settings&) const = default;
};

// The text of one token; empty where there is no tokenizer.
using token_text = std::function<std::string(std::int32_t token)>;

// The probed requests decoded once more.
struct probe_decode {
  std::vector<trajectory> of;  // by request; tokens are filled
  std::int64_t steps = 0;      // forwards that had candidates
  std::string problem;         // not empty: why there was no decode
};

// What only this program can tell of the probed requests, numbered from 0 in their order. All may be
// empty: then the probe says what it could not do.
struct probe_source {
  token_text text;
  // Score of request i, 0 to 1, with these tokens behind its prompt (-1: none decided); nothing
  // where no reference exists.
  std::function<std::optional<double>(std::size_t request, std::span<const std::int32_t> canvas)>
      score;
  // The same method on the same requests, decided in this order (with_order()).
  std::function<probe_decode(const trajectory_source& order)> again;
  // One token per forward, the most confident first: vanilla in blocks of `block` on bidirectional
  // models, static block diffusion on block-causal ones.
  std::function<probe_decode(std::int64_t block)> reference;
};

std::vector<std::string> probe_names();  // sorted

// Writes down a pass with one place for every probe of the settings, as JSON lines.
class probe_recorder final : public step_observer {
 public:
  // Usage error with the nearest names for an unknown probe. The three must outlive this.
  probe_recorder(const probe_settings& settings, const probe_source& source, std::ostream& out);
  ~probe_recorder() override;
  bool wants_layers() const override;
  void on_layer(const layer_view& layer) override;
  void on_step(const step_view& step) override;
  // Ends the last request and makes the decodes that probes ask for.
  void finish();

 private:
  void begin_if_new(const batch& b);
  std::vector<std::unique_ptr<probes::capture>> captures_;
  bool running_ = false;  // a request has begun and not ended
  bool in_step_ = false;  // layers of the step that comes next were shown
};

// JSON object of each probe by name, as the package computes them from what a recorder wrote. Environment
// error where the package cannot be run or ends with an error.
std::map<std::string, std::string> probe_results(const std::filesystem::path& trace);

// The decodes that probes ask for (probe_source): the same requests, one after the other, under
// another order or by the slowest sensible baseline.
// The requests again under `method`; with an order, decided in that order (with_order()). Request
// ids must be 0, 1, 2, ... A refusal is reported as `problem`, not thrown.
probe_decode decode_again(const transformer& model, const method_info& method,
                          const parameters& settings, const std::vector<sequence_request>& requests,
                          const trajectory_source* order);

// One token per forward, the most confident first: vanilla in blocks of `block` (0: one) for
// bidirectional models, block_diffusion with low_confidence_static for block-causal ones. Other
// models have no such reference.
probe_decode decode_reference(const transformer& model,
                              const std::vector<sequence_request>& requests, std::int64_t block);

}  // namespace unmask
