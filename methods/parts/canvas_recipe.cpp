// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/canvas_recipe.h"

#include "methods/parts/loop_parameters.h"
#include "methods/parts/prior.h"
#include "methods/parts/schedules.h"
#include "methods/parts/specs.h"

namespace unmask {

bool dream_schedule(const model_config& model, const parameters& p) {
  const std::string& schedule = p.text("schedule");
  return schedule == "dream" || schedule == "dimple" ||
         (schedule == "auto" && model.family == model_family::dream);
}

recipe make_canvas(const std::string& method, const model_config& model, const parameters& p,
                   bool early_stop) {
  recipe r;
  r.rows = std::make_unique<row_policy>();
  r.keys = std::make_unique<key_policy>();
  r.cache = std::make_unique<no_cache>();
  unmask_settings u = sampling_settings(dream_schedule(model, p), p);
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
    t.by_share = p.text("schedule") == "dimple";
    r.pace = with_prior(method, model, p, std::make_unique<time_schedule>(t));
    u.limit_to_quota = t.confidence_threshold;
    if (!t.confidence_threshold && !t.by_share) u.threshold = 0;
    u.leftmost = alg == "autoregressive";
    u.or_quota = t.by_share || u.leftmost;
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
  if (early_stop) s.stop_ids = model.stop_ids;
  s.fill_behind = early_stop;
  s.stop_sequences = stop_sequences_of(method, p);
  s.block_end_token = static_cast<std::int32_t>(p.integer("block_end_token"));
  r.pace = std::make_unique<block_schedule>(s);
  u.score = p.text("remasking");
  r.unmask = std::make_unique<ranked_unmask>(u);
  return r;
}

void check_canvas(const std::string& method, const model_config& model, const parameters& p) {
  need_bidirectional(method, model);
  const bool stops = !stop_sequences_of(method, p).empty() || p.integer("block_end_token") >= 0;
  if (stops && dream_schedule(model, p)) {
    throw usage_error(
        method +
        ": stop_sequences and block_end_token need blocks, which Dream's schedule does not have");
  }
  if (has_prior(p) && !dream_schedule(model, p)) {
    throw usage_error(method + ": prior is of Dream's and Dimple's loops; set schedule");
  }
  if (p.text("schedule") == "dimple") check_share_rule(method, p);
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
  std::vector<parameter_spec> all = {choice_spec("schedule", {"auto", "llada", "dream", "dimple"},
                                                 "which loop: auto picks by model family", "")};
  append(all, schedule_parameters());
  append(all, {varying_at({"random"},
                          choice_spec("remasking", {"low_confidence", "random"},
                                      "what keeps a token masked (LLaDA)", "LLaDA generate.py")),
               flag_spec("until_clean", false,
                         "a block ends when no mask is left instead of after its steps",
                         "Fast-dLLM generate.py")});
  append(all, parallel_parameters());
  append(all, {stop_parameter(),
               later(integer_spec("block_end_token", -1, -1, 1 << 24,
                                  "LLaDA: a block whose last token is this one is the last; -1: "
                                  "every block is decoded",
                                  "MMaDA modeling_mmada.py (mmu_generate_fast)"))});
  append(all, sampling_parameters({"origin", "confidence_threshold", "autoregressive"}));
  append(all, {original_confidence_parameter()});
  return all;
}

}  // namespace unmask
