// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LLaDA2.0 as its published code decodes it: a strict threshold, and where too few masks pass it the
// best ones of the schedule.
#include "methods/llada2/block_window.h"
#include "methods/parts/block_unmask.h"
#include "methods/parts/specs.h"

namespace unmask::llada2 {
namespace {

parameter_map official(const parameter_map& recorded) {
  parameter_map m = recorded_settings(recorded);
  for (const auto& [name, value] :
       take(recorded, {"steps", "minimal_topk", "eos_stop_after_block"})) {
    m[name] = value;
  }
  return m;
}

recipe make(const model_config& model, const parameters& p) {
  settings s = settings_of("llada2", model, p);
  s.steps = static_cast<std::int32_t>(p.integer("steps"));
  s.minimal_topk = static_cast<std::int32_t>(p.integer("minimal_topk"));
  s.stop_after_block = p.flag("eos_stop_after_block");
  block_unmask_settings rule;
  rule.threshold = static_cast<float>(p.real("threshold"));
  rule.strict = true;
  rule.at_least_quota = true;
  rule.block = s.block_length;
  recipe r = make_loop(std::move(s));
  r.unmask = std::make_unique<block_unmask>(rule);
  return r;
}

method_info info() {
  method_info m;
  m.name = "llada2";
  m.summary = "LLaDA2.0's own block loop: a strict threshold over a schedule";
  m.paper = "LLaDA2.0 (inclusionAI, 2025), arXiv 2512.15745";
  m.source = "methods/llada2";
  m.pace = "block, aligned to position 0, until clean";
  m.rows = "whole block; with cache=none the window up to its end";
  m.shape = {row_extent::block};
  m.keys = "history and block";
  m.cache = "KV write pass, or none";
  m.unmask = "threshold, at least the schedule's number";
  m.parameters = shared_parameters();
  const std::string code = "modeling_llada2_moe.py, generate";
  append(m.parameters,
         {steps_spec(32, 1, 256, "steps that a block's quotas are spread over", code),
          integer_spec("minimal_topk", 1, 1, 256,
                       "no more than gen_length / minimal_topk of those steps", code),
          flag_spec("eos_stop_after_block", true, "end after a block with a stop id", code)});
  m.knobs = {{"threshold", "decided_early"}};
  m.check = [](const model_config& model, const parameters& p) { check("llada2", model, p); };
  m.make = make;
  return m;
}

const register_method registered(info(), {{"llada2", official}});

}  // namespace
}  // namespace unmask::llada2
