// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes: the papers' motivation figures on the trajectory of any method. They watch a pass of their
// own, one request after the other, so that no measured time contains it. The pass is written down
// here (probe_writer.h) and computed on in the package (harness/python/unmask/probes). Which there are:
// plan/probe_settings.h.
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
#include "harness/plan/probe_settings.h"

namespace unmask {

namespace probes {
class probe_writer;
}

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
  std::vector<std::unique_ptr<probes::probe_writer>> writers_;
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
