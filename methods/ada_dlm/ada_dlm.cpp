// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM (ACL 2026) as a recipe: its parameters, what it refuses, and how they become settings.
// Every question that the paper leaves open is a parameter; README.md lists them.
#include "methods/ada_dlm/policies.h"
#include "methods/parts/specs.h"

namespace unmask::ada_dlm {
namespace {

settings settings_of(const model_config& model, const parameters& p) {
  settings s = decision_settings(p);
  s.remask_by_id = p.flag("remask_by_id");
  s.keep_mask_input = p.text("frozen_input") == "mask";
  s.block_scope = p.text("scope") == "block";
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  s.running_history = p.text("block_history") == "running";
  s.steps = static_cast<std::int32_t>(p.integer("steps"));
  if (s.steps == 0) s.steps = model.family == model_family::dream ? 64 : 100;
  s.commit_at_cap = p.text("at_cap") == "commit";
  s.delay = p.integer("delay") == 1;
  s.cache_steps = static_cast<std::int32_t>(p.integer("cache_steps"));
  s.refresh_prompt = p.flag("refresh_prompt");
  s.ffn_only = p.text("execution") == "ffn_only";
  return s;
}

void check(const model_config& model, const parameters& p) {
  if (model.mask_id < 0) {
    throw usage_error("ada_dlm cannot decode " + model.name + ": the model has no mask token");
  }
  if (model.attention != mask_kind::full) {
    throw usage_error("ada_dlm cannot decode " + model.name + ": it needs bidirectional attention");
  }
  check_decision("ada_dlm", p);
  if (p.text("frozen_input") == "mask" && p.flag("remask_by_id")) {
    throw usage_error("ada_dlm: frozen_input mask and remask_by_id exclude each other");
  }
  if (p.text("centroid") == "trace" && p.text("block_history") == "running") {
    throw usage_error(
        "ada_dlm: centroid trace begins with its block: it needs block_history zeros");
  }
  if (p.flag("refresh_prompt") && p.integer("cache_steps") == 0) {
    throw usage_error("ada_dlm: refresh_prompt needs cache_steps > 0");
  }
}

recipe make(const model_config& model, const parameters& p) {
  const settings s = settings_of(model, p);
  const auto shared = std::make_shared<shared_state>();
  recipe r;
  r.pace = std::make_unique<pace>(s, shared);
  r.rows = std::make_unique<rows>(s, shared);
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<append_cache>(/*keeps_decided=*/true);
  r.unmask = std::make_unique<unmask>(s, shared);
  r.views.state_bytes = [shared] { return shared->bytes(); };
  return r;
}

method_info info() {
  method_info m;
  m.name = "ada_dlm";
  m.summary = "adaptive freezing by two centroids of confidence histories over a delayed cache";
  m.paper = "Ada-DLM (ACL 2026)";
  m.source = "methods/ada_dlm";
  m.pace = "whole response or block, until nothing is masked, at most T steps";
  m.rows = "masked, and frozen one step before";
  m.shape = {row_extent::answer, 0.5};
  m.keys = "cached and computed positions";
  m.cache = "one step late; optional refresh";
  m.unmask = "two-centroid freeze";
  const std::string text = "not stated by the paper";
  m.parameters = decision_parameters();
  m.knobs = {{"rule", "decided_early"}};
  append(
      m.parameters,
      {choice_spec("scope", {"sequence", "block"}, "where tokens are ranked and frozen",
                   "Algorithm 1; Fast-dLLM"),
       block_length_spec(32, 1, 1e6, "scope block: tokens per block", "Fast-dLLM"),
       choice_spec(
           "block_history", {"zeros", "running"},
           "scope block: history at a block's start; running: scored from the first step, at "
           "the cost of positions in the LM head",
           text),
       steps_spec(0, 0, 1e6, "T: cap on steps; 0: the paper's 64 (Dream) or 100", "section 5"),
       choice_spec("at_cap", {"commit", "leave"},
                   "what is still active after T steps: committed, or left masked",
                   "Algorithm 1, line 29"),
       choice_spec("frozen_input", {"token", "mask"},
                   "what a frozen position enters as: its token, or the mask", text),
       flag_spec("remask_by_id", false, "a token unmasked as the mask id stays masked",
                 "LLaDA loops"),
       integer_spec(
           "delay", 1, 0, 1,
           "passes that a frozen token takes part in before only its KV is read; 0: KV of the mask",
           "dKV-Cache"),
       integer_spec("cache_steps", 0, 0, 1e6,
                    "refresh the whole response every so many steps; 0: never", "dKV-Cache"),
       flag_spec("refresh_prompt", false, "a refresh computes the prompt too", "dKV-Cache"),
       choice_spec("execution", {"row_compact", "ffn_only"},
                   "frozen positions leave the pass, or (ffn_only) skip KV and feed-forward only",
                   "section 4.2.3, eq. 5")});
  m.presets["block32"] = {{"scope", "block"}};
  m.presets["fast-dllm-control"] = {{"rule", "threshold"}};
  m.presets["moving-average-control"] = {{"rule", "moving_average"}};
  m.check = check;
  m.make = make;
  return m;
}

const register_method registered(info());

}  // namespace
}  // namespace unmask::ada_dlm
