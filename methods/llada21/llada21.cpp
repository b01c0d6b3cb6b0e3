// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LLaDA2.1: while a block is in work its decided tokens are replaced when the model has come to prefer
// others. A block ends with a forward that changes nothing.
#include "kernels/decisions.h"
#include "methods/llada2/block_window.h"
#include "methods/llada21/kernels/edits.h"
#include "methods/parts/block_unmask.h"
#include "methods/parts/specs.h"

namespace unmask::llada21 {
namespace {

// Masks as LLaDA2.0 decides them, `num_to_transfer` at least; every other position of the block is
// replaced by its arg-max where that is another token of more than `editing_threshold`.
class editing_unmask final : public block_unmask {
 public:
  editing_unmask(const block_unmask_settings& s, float editing_threshold)
      : block_unmask(s, {.replaces = true}), editing_threshold_(editing_threshold) {}

  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override {
    const backend& backend = b.backend();
    const candidate_set set = c.set(b.capacity());
    const float* probability = c.probability.as<float>();
    backend.run(op::score_masks{set, b.state(), probability, c.score.as<float>()});
    decide_by(c.score.as<float>(), b, plan, c);
    backend.run(op::accept_edits{set, b.canvas(), b.state(), c.token.as<std::int32_t>(),
                                 probability, editing_threshold_, c.accept.as<std::uint8_t>()});
  }

 private:
  float editing_threshold_;
};

parameter_map official(const parameter_map& recorded) {
  parameter_map m = llada2::recorded_settings(recorded);
  for (const auto& [name, value] :
       take(recorded, {"editing_threshold", "max_post_steps", "num_to_transfer"})) {
    m[name] = value;
  }
  return m;
}

recipe make(const model_config& model, const parameters& p) {
  llada2::settings s = llada2::settings_of("llada21", model, p);
  s.max_post_steps = static_cast<std::int32_t>(p.integer("max_post_steps"));
  s.num_to_transfer = static_cast<std::int32_t>(p.integer("num_to_transfer"));
  block_unmask_settings rule;
  rule.threshold = static_cast<float>(p.real("threshold"));
  rule.strict = true;
  rule.at_least_quota = true;
  rule.block = s.block_length;
  recipe r = llada2::make_loop(std::move(s));
  r.unmask =
      std::make_unique<editing_unmask>(rule, static_cast<float>(p.real("editing_threshold")));
  return r;
}

method_info info() {
  method_info m;
  m.name = "llada21";
  m.summary = "LLaDA2.1: unmasked tokens of the current block are edited until it is quiet";
  m.paper = "LLaDA2.1 (inclusionAI, 2026), arXiv 2602.08676";
  m.source = "methods/llada21";
  m.pace = "block, aligned to position 0, until clean and quiet";
  m.rows = "whole block; with cache=none the window up to its end";
  m.shape = {row_extent::block};
  m.keys = "history and block";
  m.cache = "KV write pass if the last pass changed a token, or none";
  m.unmask = "threshold, and a second one for editing unmasked tokens";
  m.parameters = llada2::shared_parameters();
  const std::string code = "modeling_llada21_moe.py, generate";
  append(m.parameters,
         {real_spec("editing_threshold", 0.9, 0, 2,
                    "edit an unmasked token into one of more than this confidence; 1: never", code),
          integer_spec("max_post_steps", 16, 0, 1024, "passes of a clean block at most", code),
          integer_spec("num_to_transfer", 1, 1, 256, "masks that a pass unmasks at least", code)});
  m.knobs = {{"editing_threshold", "replaced"}};
  // The two modes of the model cards (inclusionAI/LLaDA2.1-mini, "Best Practices").
  m.presets["quality"] = {{"threshold", 0.7}, {"editing_threshold", 0.5}};
  m.presets["speed"] = {{"threshold", 0.5}, {"editing_threshold", 0.0}};
  m.check = [](const model_config& model, const parameters& p) {
    llada2::check("llada21", model, p);
  };
  m.make = make;
  return m;
}

const register_method registered(info(), {{"llada21", official}});

}  // namespace
}  // namespace unmask::llada21
