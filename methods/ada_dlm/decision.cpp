// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The freeze rule's own parameters, for every recipe that decides by it.
#include "methods/ada_dlm/kernels/freeze.h"
#include "methods/ada_dlm/policies.h"
#include "methods/parts/specs.h"

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

}  // namespace

settings decision_settings(const parameters& p) {
  settings s;
  s.decision.rule = rule_of(p);
  s.decision.clamp_weights = p.flag("w_clamp");
  s.decision.tier_mean = p.text("centroid") == "tier_mean";
  s.traces = p.text("centroid") == "trace";
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
  if (p.text("centroid") == "trace" && p.text("first_history") == "replicate") {
    throw usage_error(method + ": centroid trace begins with zeros: it needs first_history zeros");
  }
  if (p.text("boundary") == "last" && p.text("centroid") == "tier_mean") {
    throw usage_error(method + ": centroid tier_mean needs boundary rank, which K counts");
  }
}

std::vector<parameter_spec> decision_parameters() {
  const std::string text = "not stated by the paper";
  return {
      choice_spec("rule", {"two_centroid", "moving_average", "threshold"},
                  "decision; moving_average: same centroids, unweighted mean of the history; "
                  "threshold: Fast-dLLM on this cache",
                  "eqs. 7-10; controls"),
      choice_spec("metric", {"squared_euclidean", "manhattan", "cosine"},
                  "distance to the centroids (two_centroid)", "eq. 8, Table 5"),
      integer_spec("history", 3, 1, 16, "m: confidences per token", "eq. 6, Table 4"),
      real_spec("k", 0.15, 1e-6, 1, "K as a share of k_basis", "Table 3"),
      integer_spec("k_tokens", 0, 0, 1e6, "K itself, tokens; 0: from k", "Table 3"),
      choice_spec("k_basis", {"scope", "active", "sequence"},
                  "what k is a share of: positions of the scope at its start, those still active "
                  "(K shrinks), or prompt and response",
                  text),
      choice_spec("boundary", {"rank", "last"},
                  "boundary prototype: rank K + 1, or the last ranked",
                  "eq. 7, Algorithm 1; Fig. 3"),
      choice_spec("centroid", {"token", "trace", "tier_mean"},
                  "prototypes: the histories of the tokens at ranks 1 and K + 1 (Algorithm 1), the "
                  "traces of the ranks themselves (section 4.2.2), or the means of ranks 1..K and "
                  "K + 1..2K",
                  "eq. 7, section 4.2.2; variant"),
      flag_spec("w_clamp", false, "negative weights high - boundary count 0 (squared_euclidean)",
                "variant"),
      choice_spec("ranked", {"active", "region"},
                  "who is ranked: masked positions, or unmasked ones too", "Algorithm 1"),
      choice_spec("short_set", {"last_ranked", "freeze_all"},
                  "at most K active: boundary is the last of them, or all freeze", text),
      flag_spec("guard", true, "nothing frozen: the most confident token is", text),
      real_spec("floor", 0.0, 0, 1, "confidence below which a token never freezes", text),
      choice_spec("first_history", {"zeros", "replicate"},
                  "a position's history before its first score", "Algorithm 1"),
      real_spec("threshold", 0.9, 0, 2, "rule threshold: freeze above it", "Fast-dLLM"),
      real_spec("average_threshold", 0.0, 0, 2,
                "rule moving_average: freeze above it; 0: midpoint of the two centroids' means",
                "control"),
      flag_spec("limit_to_quota", false, "at most ceil(gen_length / T) tokens freeze per step",
                text),
      varying_above_zero(
          real_spec("temperature", 0.0, 0, 100, "Gumbel sampling temperature; 0: greedy", text)),
      choice_spec("confidence_dtype", {"float32", "float64"},
                  "accumulation of the confidence softmax", text)};
}

}  // namespace unmask::ada_dlm
