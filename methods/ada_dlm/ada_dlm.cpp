// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM (ACL 2026) as a recipe: its parameters, what it refuses, and how they become settings.
// Every question that the paper leaves open is a parameter; README.md lists them.
#include "methods/ada_dlm/policies.h"

namespace unmask::ada_dlm {
namespace {

freeze_rule rule_of(const parameters& p) {
  const std::string& rule = p.text("rule");
  if (rule == "moving_average") return freeze_rule::moving_average;
  if (rule == "threshold") return freeze_rule::threshold;
  const std::string& metric = p.text("metric");
  if (metric == "manhattan") return freeze_rule::manhattan;
  return metric == "cosine" ? freeze_rule::cosine : freeze_rule::squared_euclidean;
}

settings settings_of(const model_config& model, const parameters& p) {
  settings s;
  s.decision.rule = rule_of(p);
  s.decision.clamp_weights = p.flag("w_clamp");
  s.decision.tier_mean = p.text("centroid") == "tier_mean";
  s.decision.all_when_short = p.text("short_set") == "freeze_all";
  s.decision.always_best = p.flag("guard");
  s.decision.rank_all = p.text("ranked") == "region";
  s.decision.floor = static_cast<float>(p.real("floor"));
  if (s.decision.rule == freeze_rule::threshold) {
    s.decision.threshold = static_cast<float>(p.real("threshold"));
  } else if (s.decision.rule == freeze_rule::moving_average) {
    s.decision.threshold = static_cast<float>(p.real("average_threshold"));
  }
  s.history = static_cast<std::int32_t>(p.integer("history"));
  s.k = p.real("k");
  s.k_tokens = static_cast<std::int32_t>(p.integer("k_tokens"));
  s.k_basis = p.text("k_basis");
  s.boundary_last = p.text("boundary") == "last";
  s.replicate_first = p.text("first_history") == "replicate";
  s.limit_to_quota = p.flag("limit_to_quota");
  s.temperature = static_cast<float>(p.real("temperature"));
  s.double_confidence = p.text("confidence_dtype") == "float64";
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
  const bool squared = rule_of(p) == freeze_rule::squared_euclidean;
  if (p.flag("w_clamp") && !squared) {
    throw usage_error("ada_dlm: w_clamp needs rule two_centroid with metric squared_euclidean");
  }
  if (p.text("boundary") == "last" && p.text("short_set") == "freeze_all") {
    throw usage_error("ada_dlm: short_set freeze_all needs boundary rank, which K counts");
  }
  if (p.text("boundary") == "last" && p.text("centroid") == "tier_mean") {
    throw usage_error("ada_dlm: centroid tier_mean needs boundary rank, which K counts");
  }
  if (p.text("frozen_input") == "mask" && p.flag("remask_by_id")) {
    throw usage_error("ada_dlm: frozen_input mask and remask_by_id exclude each other");
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
  r.cache = std::make_unique<append_cache>();
  r.unmask = std::make_unique<unmask>(s, shared);
  return r;
}

parameter_spec choice(std::string name, std::string value, std::string meaning,
                      std::vector<std::string> choices, std::string source) {
  return {std::move(name), std::move(value),   std::move(meaning), -1e300,
          1e300,           std::move(choices), std::move(source)};
}

parameter_spec flag(std::string name, bool value, std::string meaning, std::string source) {
  return {std::move(name), value, std::move(meaning), -1e300, 1e300, {}, std::move(source)};
}

method_info info() {
  method_info m;
  m.name = "ada_dlm";
  m.summary = "adaptive freezing by two centroids of confidence histories over a delayed cache";
  m.paper = "Ada-DLM (ACL 2026)";
  m.source = "methods/ada_dlm";
  m.pace = "whole canvas or block, until nothing is masked, at most T steps";
  m.rows = "masked, and frozen one step before";
  m.keys = "cached and rows";
  m.cache = "one step late; optional refresh";
  m.unmask = "two-centroid freeze";
  const std::string text = "not stated by the paper";
  const std::int64_t none = 0;
  m.parameters = {
      choice("rule", "two_centroid",
             "decision; moving_average: same centroids, unweighted mean of the history; "
             "threshold: Fast-dLLM on this cache",
             {"two_centroid", "moving_average", "threshold"}, "eqs. 7-10; controls"),
      choice("metric", "squared_euclidean", "distance to the centroids (two_centroid)",
             {"squared_euclidean", "manhattan", "cosine"}, "eq. 8, Table 5"),
      {"history", std::int64_t{3}, "m: confidences per token", 1, 16, {}, "eq. 6, Table 4"},
      {"k", 0.15, "K as a share of k_basis", 1e-6, 1, {}, "Table 3"},
      {"k_tokens", none, "K itself, tokens; 0: from k", 0, 1e6, {}, "Table 3"},
      choice("k_basis", "scope",
             "what k is a share of: positions of the scope at its start, those still active "
             "(K shrinks), or prompt and canvas",
             {"scope", "active", "sequence"}, text),
      choice("boundary", "rank", "boundary prototype: rank K + 1, or the last ranked",
             {"rank", "last"}, "eq. 7, Algorithm 1; Fig. 3"),
      choice("centroid", "token",
             "prototypes: one token each, or the means of ranks 1..K and K + 1..2K",
             {"token", "tier_mean"}, "eq. 7; variant"),
      flag("w_clamp", false, "negative weights high - boundary count 0 (squared_euclidean)",
           "variant"),
      choice("ranked", "active", "who is ranked: masked positions, or decided ones too",
             {"active", "region"}, "Algorithm 1"),
      choice("short_set", "last_ranked",
             "at most K active: boundary is the last of them, or all freeze",
             {"last_ranked", "freeze_all"}, text),
      flag("guard", true, "nothing frozen: the most confident token is", text),
      {"floor", 0.0, "confidence below which a token never freezes", 0, 1, {}, text},
      choice("first_history", "zeros", "a position's history before its first score",
             {"zeros", "replicate"}, "Algorithm 1"),
      {"threshold", 0.9, "rule threshold: freeze above it", 0, 2, {}, "Fast-dLLM"},
      {"average_threshold",
       0.0,
       "rule moving_average: freeze above it; 0: midpoint of the two centroids' means",
       0,
       2,
       {},
       "control"},
      choice("scope", "sequence", "where tokens are ranked and frozen", {"sequence", "block"},
             "Algorithm 1; Fast-dLLM"),
      {"block_length", std::int64_t{32}, "scope block: tokens per block", 1, 1e6, {}, "Fast-dLLM"},
      choice("block_history", "zeros",
             "scope block: history at a block's start; running: scored from the first step, at "
             "the cost of LM-head rows",
             {"zeros", "running"}, text),
      {"steps", none, "T: cap on steps; 0: the paper's 64 (Dream) or 100", 0, 1e6, {}, "section 5"},
      choice("at_cap", "commit", "what is still active after T steps: committed, or left masked",
             {"commit", "leave"}, "Algorithm 1, line 29"),
      flag("limit_to_quota", false, "at most ceil(canvas / T) tokens freeze per step", text),
      {"temperature", 0.0, "Gumbel sampling temperature; 0: greedy", 0, 100, {}, text},
      choice("confidence_dtype", "float32", "accumulation of the confidence softmax",
             {"float32", "float64"}, text),
      choice("frozen_input", "token", "what a frozen position enters as: its token, or the mask",
             {"token", "mask"}, text),
      flag("remask_by_id", false, "a token decided as the mask id stays masked", "LLaDA loops"),
      {"delay",
       std::int64_t{1},
       "forwards a frozen token takes part in before only its K/V is read; 0: K/V of the mask",
       0,
       1,
       {},
       "dKV-Cache"},
      {"cache_steps",
       none,
       "refresh all canvas rows every so many steps; 0: never",
       0,
       1e6,
       {},
       "dKV-Cache"},
      flag("refresh_prompt", false, "a refresh computes the prompt too", "dKV-Cache"),
      choice("execution", "row_compact",
             "frozen rows leave the forward, or (ffn_only) skip K/V and feed-forward only",
             {"row_compact", "ffn_only"}, "section 4.2.3, eq. 5")};
  m.presets["block32"] = {{"scope", std::string("block")}};
  m.presets["fast-dllm-control"] = {{"rule", std::string("threshold")}};
  m.presets["moving-average-control"] = {{"rule", std::string("moving_average")}};
  m.check = check;
  m.make = make;
  return m;
}

const register_method registered(info());

}  // namespace
}  // namespace unmask::ada_dlm
