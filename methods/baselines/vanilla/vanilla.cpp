// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Whole-canvas decoding without a cache: LLaDA's semi-autoregressive schedule and Dream's time
// schedule, each with its ways of choosing tokens. The baseline every speed-up is measured from.
#include "harness/decode/registry.h"
#include "methods/parts/canvas_recipe.h"
#include "methods/parts/loop_parameters.h"
#include "methods/parts/prior.h"
#include "methods/parts/specs.h"

namespace unmask {
namespace {

method_info vanilla_info() {
  method_info m;
  m.name = "vanilla";
  m.summary = "decoding of the whole response without a cache, LLaDA's and Dream's own loops";
  m.paper = "LLaDA (Nie et al., 2025), Dream 7B (Ye et al., 2025)";
  m.source = "methods/baselines/vanilla";
  m.pace = "block schedule (LLaDA) or time schedule (Dream)";
  m.rows = "prompt and whole response";
  m.keys = "all";
  m.cache = "none";
  m.unmask = "top-n of the schedule; threshold or factor when set";
  m.parameters = canvas_parameters();
  append(m.parameters,
         {flag_spec("early_stop", false,
                    "LLaDA: end with the block that holds the answer's end, as a control; the "
                    "official loop unmasks the padding after it",
                    ""),
          prior_parameter()});
  m.knobs = {{"threshold", "decided_early", "0"}};
  m.presets["dimple"] = {{"schedule", "dimple"},
                         {"alg", "maskgit_plus"},
                         {"threshold", 0.95},
                         {"original_confidence", true}};
  m.presets["llada-v"] = {{"stop_sequences", eot_of_llada}};
  m.presets["dream-instruct"] = {{"temperature", 0.2}, {"top_p", 0.95}, {"alg", "entropy"}};
  m.check = [](const model_config& model, const parameters& p) {
    check_canvas("vanilla", model, p);
    if (p.flag("early_stop") && dream_schedule(model, p)) {
      throw usage_error("vanilla: early_stop needs blocks, which Dream's schedule does not have");
    }
    if (p.flag("early_stop") && model.stop_ids.empty()) {
      throw usage_error("vanilla: early_stop needs a model with stop ids; " + model.name +
                        " has none");
    }
  };
  m.make = [](const model_config& model, const parameters& p) {
    return make_canvas("vanilla", model, p, p.flag("early_stop"));
  };
  return m;
}

// LLaDA generate.py
parameter_map official_llada(const parameter_map& recorded) {
  parameter_map m = take(recorded, {"steps", "block_length", "remasking", "temperature",
                                    "threshold", "factor", "until_clean"});
  m["schedule"] = std::string("llada");
  return m;
}

// Dream generation_utils.py
parameter_map official_dream(const parameter_map& recorded) {
  parameter_map m =
      take(recorded, {"steps", "alg", "eps", "temperature", "threshold", "alg_temp", "top_p"});
  m["schedule"] = std::string("dream");
  return m;
}

const register_method registered(vanilla_info(), {{"vanilla_llada", official_llada},
                                                  {"vanilla_dream", official_dream}});

}  // namespace

parameter_map whole_canvas_settings(const parameter_map& recorded) {
  return recorded.count("alg") > 0 ? official_dream(recorded) : official_llada(recorded);
}

}  // namespace unmask
