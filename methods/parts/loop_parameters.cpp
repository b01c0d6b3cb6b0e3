// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/loop_parameters.h"

#include <charconv>

#include "methods/parts/specs.h"
namespace unmask {
namespace {

// Methods register before main(): nothing here may need a constructor.
constexpr const char* llada_source = "LLaDA generate.py";
constexpr const char* dream_source = "Dream generation_utils.py";

}  // namespace

std::vector<parameter_spec> schedule_parameters() {
  return {steps_spec(0, 0, 1e6,
                     "denoising steps for the whole response; 0: gen_length / tokens_per_step",
                     llada_source),
          tokens_per_step_spec(1, 1, 1024, "tokens unmasked per step if steps is 0", llada_source),
          block_length_spec(32, 0, 1e6, "tokens per semi-autoregressive block; 0: one block",
                            llada_source)};
}

std::vector<parameter_spec> parallel_parameters() {
  return {real_spec("threshold", 0.0, 0, 2,
                    "unmask every token at least this confident, at least one; 0: schedule",
                    "Fast-dLLM generate.py"),
          real_spec("factor", 0.0, 0, 100,
                    "factor decoding: n-th best needs confidence 1 - factor / (n + 1); 0: off",
                    "Fast-dLLM, later revision")};
}

parameter_spec stop_parameter() {
  return later(text_spec("stop_sequences", "",
                         "LLaDA: end the answer before the first of these, token ids with commas, "
                         "several with semicolons",
                         "LLaDA-V modeling_llada.py (generate_with_embeds)"));
}

std::vector<std::vector<std::int32_t>> stop_sequences_of(const std::string& method,
                                                         const parameters& p) {
  const std::string& text = p.text("stop_sequences");
  std::vector<std::vector<std::int32_t>> all;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const bool first = all.empty();
    if (first || *at == ';') all.emplace_back();
    if (!first) ++at;  // the comma or semicolon that ended the token before
    std::int32_t token = -1;
    const auto [behind, failed] = std::from_chars(at, end, token);
    const bool ends = behind == end || *behind == ',' || *behind == ';';
    if (failed != std::errc() || token < 0 || !ends) {
      throw usage_error(method + ": stop_sequences is '" + text +
                        "' but must hold token ids, as 84,28;35");
    }
    all.back().push_back(token);
    at = behind;
  }
  return all;
}

parameter_spec entropy_bound_parameter() {
  return real_spec("gamma", 0.0, 0, 1e6,
                   "EB-sampler's rule: unmask the surest while their entropies without the largest "
                   "sum to at most this, nats; 0: off",
                   "arXiv 2505.24857");
}

void check_entropy_bound(const std::string& method, bool dream, const parameters& p) {
  if (p.real("gamma") <= 0) return;
  if (dream) {
    throw usage_error(method + ": gamma is of LLaDA's loop; Dream's unmasks by a schedule of time");
  }
  for (const char* other : {"threshold", "factor"}) {
    if (p.values().contains(other) && p.real(other) > 0) {
      throw usage_error(method + ": gamma and " + other + " exclude each other");
    }
  }
}

std::vector<parameter_spec> sampling_parameters(const std::vector<std::string>& more) {
  std::vector<std::string> rankings = {"entropy", "maskgit_plus", "topk_margin"};
  rankings.insert(rankings.end(), more.begin(), more.end());
  return {varying_above_zero(real_spec(
              "temperature", 0.0, 0, 100,
              "Gumbel (LLaDA) or softmax (Dream) sampling temperature; 0: greedy", llada_source)),
          varying_at({"origin"}, choice_spec("alg", rankings, "Dream's ranking", dream_source)),
          real_spec("eps", 1e-3, 1e-9, 0.5, "smallest time of Dream's schedule", dream_source),
          varying_above_zero(real_spec("alg_temp", 0.0, 0, 100,
                                       "Dream: randomness of the order; 0: none", dream_source)),
          real_spec("top_p", 1.0, 1e-6, 1, "Dream: nucleus of the sampling", dream_source),
          integer_spec("top_k", 0, 0, 1e6, "Dream: sample among the k best; 0: all", dream_source)};
}

parameter_spec original_confidence_parameter() {
  return later(flag_spec("original_confidence", false,
                         "Dream, Dimple: rank by the logits before temperature, top_p and top_k",
                         "Dimple generation_utils.py (use_original_confidence)"));
}

parameter_spec confidence_parameter() {
  return choice_spec(
      "confidence_dtype", {"float64", "float32"},
      "LLaDA: softmax type that ranks candidates; float32 ties tokens it rounds to 1",
      "the official loop's own");
}

void set_confidence_dtype(unmask_settings& u, bool dream, const parameters& p) {
  u.rank_in_double = !dream && u.threshold <= 0 && u.factor <= 0 && u.gamma <= 0 &&
                     p.text("confidence_dtype") == "float64";
}

void check_share_rule(const std::string& method, const parameters& p) {
  const std::string& alg = p.text("alg");
  if (alg == "origin" || alg == "confidence_threshold") {
    throw usage_error(method +
                      ": Dimple's rule ranks by maskgit_plus, topk_margin, entropy or "
                      "autoregressive, not by " +
                      alg);
  }
}

unmask_settings sampling_settings(bool dream, const parameters& p) {
  unmask_settings u;
  if (dream) {
    u.score = p.text("alg");
    u.temperature = static_cast<float>(p.real("temperature"));
    u.top_p = static_cast<float>(p.real("top_p"));
    u.top_k = static_cast<std::int32_t>(p.integer("top_k"));
    u.alg_temp = static_cast<float>(p.real("alg_temp"));
    u.original_confidence =
        p.values().contains("original_confidence") && p.flag("original_confidence");
  } else {
    u.gumbel_temperature = static_cast<float>(p.real("temperature"));
  }
  return u;
}

void need_bidirectional(const std::string& method, const model_config& model) {
  if (model.mask_id < 0) {
    throw usage_error(method + " cannot decode " + model.name + ": the model has no mask token");
  }
  if (model.attention != mask_kind::full) {
    throw usage_error(method + " cannot decode " + model.name +
                      ": it needs bidirectional attention; use block_diffusion");
  }
}

void need_in_place(const std::string& method, const model_config& model) {
  if (!model.shifted_logits) return;
  throw usage_error(method + " cannot decode " + model.name + ": " + model.name +
                    " predicts each token from the position before it, and " + method +
                    " is only defined for models that predict in place");
}

}  // namespace unmask
