// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Hierarchical decoding (dInfer, 2025): neighbours decided together are the risky ones, so a forward
// takes the best of each run of adjacent masks, which the decided token then splits.
#include "kernels/decisions.h"
#include "kernels/head.h"
#include "methods/hierarchical/kernels/runs.h"
#include "methods/hierarchical/whole_window.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

class hierarchical_unmask final : public unmask_policy {
 public:
  hierarchical_unmask(float threshold, float low_threshold)
      : unmask_policy({.masks_by_id = true}),
        threshold_(threshold),
        low_threshold_(low_threshold) {}

  void judge(const batch& b, const step_choice&, const tensor_view& head_input,
             const packed_matrix& head, candidate_lists& c) override {
    confidence_params params;
    params.accumulate_double = true;
    b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, c.judged()});
  }

  void decide(const batch& b, const step_choice&, candidate_lists& c) override {
    const backend& backend = b.backend();
    const candidate_set set = c.set(b.capacity());
    const float* confidence = c.probability.as<float>();
    std::uint8_t* accept = c.accept.as<std::uint8_t>();
    if (!also_) also_ = backend.allocate(dtype::u8, {c.accept.view().rows()});
    backend.run(op::accept_threshold{set, confidence, threshold_, true, true, accept});
    backend.run(op::accept_run_best{set, confidence, low_threshold_, also_.as<std::uint8_t>()});
    backend.run(op::merge_accept{c.count, also_.as<std::uint8_t>(), false, accept});
  }

 private:
  float threshold_, low_threshold_;
  tensor also_;
};

recipe make(const model_config& model, const parameters& p) {
  recipe r = dinfer::make_loop("hierarchical", model, p);
  r.unmask = std::make_unique<hierarchical_unmask>(static_cast<float>(p.real("threshold")),
                                                   static_cast<float>(p.real("low_threshold")));
  return r;
}

method_info info() {
  method_info m;
  m.name = "hierarchical";
  m.summary =
      "the best of each run of adjacent masks, so that neighbours are not unmasked together";
  m.paper = "dInfer (inclusionAI, 2025), arXiv 2510.08666";
  m.source = "methods/hierarchical";
  m.pace = "block, until clean";
  m.rows = "prompt and whole response";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "best of each run above the low threshold, all above the threshold, the best";
  const std::string code = "dInfer parallel_strategy.py";
  m.parameters = {
      real_spec("low_threshold", 0.4, 0, 1,
                "the best of a run is unmasked above this confidence; 0: always, 1: never", code),
      real_spec("threshold", 1.0, 0, 1,
                "every mask above this confidence is unmasked; 1: none for this", code)};
  append(m.parameters, dinfer::loop_parameters());
  m.knobs = {{"low_threshold", "decided_early", "1"}};
  m.presets["command-line"] = {{"low_threshold", 0.3}};
  m.presets["llada-moe"] = {{"low_threshold", 0.62}, {"threshold", 0.76}};
  m.presets["benchmark"] = {{"low_threshold", 0.5}, {"threshold", 0.8}};
  m.check = [](const model_config& model, const parameters& p) {
    dinfer::check("hierarchical", model, p);
  };
  m.make = make;
  return m;
}

// A threshold recorded as null is not tested.
parameter_map official(const parameter_map& recorded) {
  parameter_map m = dinfer::recorded_settings(recorded);
  m["low_threshold"] = 0.0;
  m["threshold"] = 1.0;
  for (const auto& [name, value] : take(recorded, {"low_threshold", "threshold"})) m[name] = value;
  return m;
}

const register_method registered(info(), {{"hierarchical", official}});

}  // namespace
}  // namespace unmask
