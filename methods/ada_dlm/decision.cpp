// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The freeze rule's own parameters, for every recipe that decides by it.
#include "methods/ada_dlm/kernels/freeze.h"
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

parameter_spec choice(std::string name, std::string value, std::string meaning,
                      std::vector<std::string> choices, std::string source) {
  return {std::move(name), std::move(value),   std::move(meaning), -1e300,
          1e300,           std::move(choices), std::move(source)};
}

parameter_spec flag(std::string name, bool value, std::string meaning, std::string source) {
  return {std::move(name), value, std::move(meaning), -1e300, 1e300, {}, std::move(source)};
}

}  // namespace

settings decision_settings(const parameters& p) {
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
  return s;
}

void check_decision(const std::string& method, const parameters& p) {
  const bool squared = rule_of(p) == freeze_rule::squared_euclidean;
  if (p.flag("w_clamp") && !squared) {
    throw usage_error(method + ": w_clamp needs rule two_centroid with metric squared_euclidean");
  }
  if (p.text("boundary") == "last" && p.text("short_set") == "freeze_all") {
    throw usage_error(method + ": short_set freeze_all needs boundary rank, which K counts");
  }
  if (p.text("boundary") == "last" && p.text("centroid") == "tier_mean") {
    throw usage_error(method + ": centroid tier_mean needs boundary rank, which K counts");
  }
}

std::vector<parameter_spec> decision_parameters() {
  const std::string text = "not stated by the paper";
  const std::int64_t none = 0;
  return {choice("rule", "two_centroid",
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
          flag("limit_to_quota", false, "at most ceil(canvas / T) tokens freeze per step", text),
          {"temperature", 0.0, "Gumbel sampling temperature; 0: greedy", 0, 100, {}, text},
          choice("confidence_dtype", "float32", "accumulation of the confidence softmax",
                 {"float32", "float64"}, text)};
}

}  // namespace unmask::ada_dlm
