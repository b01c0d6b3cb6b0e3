// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// KLASS (NeurIPS 2025) with the loops of its authors, without a cache.
#include "methods/parts/common.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/schedules.h"
#include "methods/parts/settled_unmask.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

op::ready_choice choice_of(const std::string& strategy) {
  if (strategy == "max_conf") return op::ready_choice::surest;
  if (strategy == "min_kl") return op::ready_choice::stillest;
  return op::ready_choice::all;
}

recipe make(const model_config& model, const parameters& p) {
  const bool dream = is_dream(model);
  block_schedule::settings t;
  t.method = "klass";
  t.steps = static_cast<std::int32_t>(p.integer("steps"));
  t.block_length = dream ? 0 : static_cast<std::int32_t>(p.integer("block_length"));
  t.until_clean = true;
  t.within_steps = true;
  t.leftovers = false;
  t.judge_next_block = true;
  settled_settings rule_settings;
  rule_settings.threshold = static_cast<float>(p.real("confidence_threshold"));
  rule_settings.strict = !dream;
  rule_settings.limit = static_cast<float>(p.real("kl_threshold"));
  rule_settings.history = static_cast<std::int32_t>(p.integer("kl_history"));
  rule_settings.in_block = !dream;
  rule_settings.choice = choice_of(p.text("strategy"));
  rule_settings.at_most = dream ? 1 : 0;
  // Of the block in work and of the next one, whose first comparison is with the last forward before it.
  rule_settings.places = 2 * t.block_length;
  auto rule = std::make_unique<settled_unmask>(rule_settings);
  recipe r;
  r.pace = std::make_unique<block_schedule>(t);
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<no_cache>();
  r.views.state_bytes = [of = rule.get()] { return of->bytes(); };
  r.unmask = std::move(rule);
  return r;
}

// The scripts of the authors' repository.
std::map<std::string, parameter_map> presets() {
  const auto dream = [](double confidence, double kl) {
    return parameter_map{{"confidence_threshold", confidence}, {"kl_threshold", kl}};
  };
  const auto llada = [&](double confidence, double kl) {
    parameter_map m = dream(confidence, kl);
    m["block_length"] = 64;
    return m;
  };
  return {{"llada-gsm8k", llada(0.6, 0.015)},     {"llada-math", llada(0.6, 0.01)},
          {"llada-humaneval", llada(0.9, 0.01)},  {"llada-mbpp", llada(0.7, 0.01)},
          {"dream-gsm8k", dream(0.9, 0.001)},     {"dream-math", dream(0.9, 0.005)},
          {"dream-humaneval", dream(0.8, 0.001)}, {"dream-mbpp", dream(0.9, 0.001)}};
}

method_info info() {
  method_info m;
  m.name = "klass";
  m.summary = "unmasks where the model is sure and its distribution has stopped moving";
  m.paper = "KLASS (NeurIPS 2025), arXiv 2511.05664";
  m.source = "methods/klass";
  m.pace = "block (LLaDA) or response (Dream), until clean or out of steps";
  m.rows = "prompt and whole response";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "threshold on confidence and on divergence from the last passes; else top-n";
  const std::string code = "KLASS llada_klass.py, dream_klass.py";
  m.parameters = {
      real_spec("confidence_threshold", 0.9, 0, 1,
                "a mask has to be more confident (Dream: or equally); 1: never", code),
      real_spec("kl_threshold", 0.01, 0, 1e6,
                "and its distribution to move less than this, nats; 0: never", code),
      integer_spec("kl_history", 2, 1, 1024, "for so many passes in a row", code),
      choice_spec("strategy", {"all", "max_conf", "min_kl"},
                  "of those: all, the most confident, the one that moved least", code),
      steps_spec(0, 0, 1e6,
                 "passes for the whole response; what is masked then stays so; 0: gen_length",
                 code),
      block_length_spec(32, 0, 1e6, "LLaDA: tokens per block; 0: one block", code)};
  m.knobs = {{"confidence_threshold", "decided_early", "1"}};
  m.presets = presets();
  m.check = [](const model_config& model, const parameters&) {
    need_bidirectional("klass", model);
  };
  m.make = make;
  return m;
}

parameter_map official(const parameter_map& recorded) {
  return take(recorded, {"confidence_threshold", "kl_threshold", "kl_history", "strategy", "steps",
                         "block_length"});
}

const register_method registered(info(), {{"klass", official}});

}  // namespace
}  // namespace unmask
