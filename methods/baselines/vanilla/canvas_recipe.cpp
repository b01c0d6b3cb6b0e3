// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/vanilla/canvas_recipe.h"

#include "methods/baselines/vanilla/ranked_unmask.h"
#include "methods/baselines/vanilla/schedules.h"

namespace unmask {

bool dream_schedule(const model_config& model, const parameters& p) {
  const std::string& schedule = p.text("schedule");
  return schedule == "dream" || (schedule == "auto" && model.family == model_family::dream);
}

recipe make_canvas(const std::string& method, const model_config& model, const parameters& p) {
  recipe r;
  r.method = method;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<no_cache>();
  unmask_settings u;
  u.threshold = static_cast<float>(p.real("threshold"));
  u.factor = static_cast<float>(p.real("factor"));
  const auto steps = static_cast<std::int32_t>(p.integer("steps"));
  const auto tokens_per_step = static_cast<std::int32_t>(p.integer("tokens_per_step"));
  if (dream_schedule(model, p)) {
    const std::string& alg = p.text("alg");
    time_schedule::settings t;
    t.method = method;
    t.steps = steps;
    t.tokens_per_step = tokens_per_step;
    t.eps = static_cast<float>(p.real("eps"));
    t.confidence_threshold = alg == "confidence_threshold";
    r.pace = std::make_unique<time_schedule>(t);
    u.score = alg;
    u.limit_to_quota = t.confidence_threshold;
    if (!t.confidence_threshold) u.threshold = 0;
    u.temperature = static_cast<float>(p.real("temperature"));
    u.top_p = static_cast<float>(p.real("top_p"));
    u.top_k = static_cast<std::int32_t>(p.integer("top_k"));
    u.alg_temp = static_cast<float>(p.real("alg_temp"));
    u.transfer_eps = t.eps;
    u.transfer_steps = steps > 0 ? steps : 0;
    if (alg == "origin") {
      r.unmask = std::make_unique<random_transfer>(u);
    } else {
      r.unmask = std::make_unique<ranked_unmask>(u);
    }
    return r;
  }
  block_schedule::settings s;
  s.method = method;
  s.steps = steps;
  s.tokens_per_step = tokens_per_step;
  s.block_length = static_cast<std::int32_t>(p.integer("block_length"));
  s.until_clean = p.flag("until_clean") || u.threshold > 0 || u.factor > 0;
  r.pace = std::make_unique<block_schedule>(s);
  u.score = p.text("remasking");
  u.gumbel_temperature = static_cast<float>(p.real("temperature"));
  r.unmask = std::make_unique<ranked_unmask>(u);
  return r;
}

void check_canvas(const std::string& method, const model_config& model, const parameters& p) {
  if (model.mask_id < 0) {
    throw usage_error(method + " cannot decode " + model.name + ": the model has no mask token");
  }
  if (model.attention != mask_kind::full) {
    throw usage_error(method + " cannot decode " + model.name +
                      ": it needs bidirectional attention; use block_diffusion");
  }
  if (dream_schedule(model, p)) {
    if (p.text("alg") == "confidence_threshold" && p.real("threshold") <= 0) {
      throw usage_error(method + ": alg confidence_threshold needs threshold > 0");
    }
    if (p.text("alg") == "origin" && p.integer("tokens_per_step") != 1 && p.integer("steps") == 0) {
      throw usage_error(method + ": alg origin needs explicit steps");
    }
  } else if (p.real("threshold") > 0 && p.real("factor") > 0) {
    throw usage_error(method + ": threshold and factor exclude each other");
  }
}

std::int32_t planned_steps(const parameters& p, std::int32_t gen_length) {
  const std::int64_t steps = p.integer("steps");
  return static_cast<std::int32_t>(steps > 0 ? steps : gen_length / p.integer("tokens_per_step"));
}

std::vector<parameter_spec> canvas_parameters() {
  const std::string llada = "LLaDA generate.py", dream = "Dream generation_utils.py";
  return {{"schedule",
           std::string("auto"),
           "which loop: auto picks by model family",
           -1e300,
           1e300,
           {"auto", "llada", "dream"},
           ""},
          {"steps",
           std::int64_t{0},
           "denoising steps for the whole canvas; 0: gen_length / "
           "tokens_per_step",
           0,
           1e6,
           {},
           llada},
          {"tokens_per_step",
           std::int64_t{1},
           "tokens decided per step when steps is 0",
           1,
           1024,
           {},
           llada},
          {"block_length",
           std::int64_t{32},
           "tokens per semi-autoregressive block; 0: one block",
           0,
           1e6,
           {},
           llada},
          {"remasking",
           std::string("low_confidence"),
           "what keeps a token masked (LLaDA)",
           -1e300,
           1e300,
           {"low_confidence", "random"},
           llada},
          {"temperature",
           0.0,
           "Gumbel (LLaDA) or softmax (Dream) sampling temperature; 0: greedy",
           0,
           100,
           {},
           llada},
          {"threshold",
           0.0,
           "decide every token at least this confident, at least one; 0: schedule",
           0,
           2,
           {},
           "Fast-dLLM generate.py"},
          {"factor",
           0.0,
           "factor decoding: n-th best needs confidence 1 - factor / (n + 1); 0: off",
           0,
           100,
           {},
           "Fast-dLLM, later revision"},
          {"until_clean",
           false,
           "a block ends when no mask is left instead of after its steps",
           -1e300,
           1e300,
           {},
           "Fast-dLLM generate.py"},
          {"alg",
           std::string("entropy"),
           "Dream's rule",
           -1e300,
           1e300,
           {"origin", "maskgit_plus", "topk_margin", "entropy", "confidence_threshold"},
           dream},
          {"eps", 1e-3, "smallest time of Dream's schedule", 1e-9, 0.5, {}, dream},
          {"alg_temp", 0.0, "Dream: randomness of the order; 0: none", 0, 100, {}, dream},
          {"top_p", 1.0, "Dream: nucleus of the sampling", 1e-6, 1, {}, dream},
          {"top_k", std::int64_t{0}, "Dream: sample among the k best; 0: all", 0, 1e6, {}, dream}};
}

}  // namespace unmask
