// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/baselines/vanilla/loop_parameters.h"

namespace unmask {
namespace {

constexpr double any_low = -1e300, any_high = 1e300;
// Methods register before main(): nothing here may need a constructor.
constexpr const char* llada_source = "LLaDA generate.py";
constexpr const char* dream_source = "Dream generation_utils.py";

}  // namespace

std::vector<parameter_spec> schedule_parameters() {
  return {{"steps",
           std::int64_t{0},
           "denoising steps for the whole canvas; 0: gen_length / tokens_per_step",
           0,
           1e6,
           {},
           llada_source},
          {"tokens_per_step",
           std::int64_t{1},
           "tokens decided per step when steps is 0",
           1,
           1024,
           {},
           llada_source},
          {"block_length",
           std::int64_t{32},
           "tokens per semi-autoregressive block; 0: one block",
           0,
           1e6,
           {},
           llada_source}};
}

std::vector<parameter_spec> parallel_parameters() {
  return {{"threshold",
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
           "Fast-dLLM, later revision"}};
}

std::vector<parameter_spec> sampling_parameters(const std::vector<std::string>& more) {
  std::vector<std::string> rankings = {"maskgit_plus", "topk_margin", "entropy"};
  rankings.insert(rankings.end(), more.begin(), more.end());
  return {
      {"temperature",
       0.0,
       "Gumbel (LLaDA) or softmax (Dream) sampling temperature; 0: greedy",
       0,
       100,
       {},
       llada_source},
      {"alg", std::string("entropy"), "Dream's ranking", any_low, any_high, rankings, dream_source},
      {"eps", 1e-3, "smallest time of Dream's schedule", 1e-9, 0.5, {}, dream_source},
      {"alg_temp", 0.0, "Dream: randomness of the order; 0: none", 0, 100, {}, dream_source},
      {"top_p", 1.0, "Dream: nucleus of the sampling", 1e-6, 1, {}, dream_source},
      {"top_k",
       std::int64_t{0},
       "Dream: sample among the k best; 0: all",
       0,
       1e6,
       {},
       dream_source}};
}

parameter_spec confidence_parameter() {
  return {"confidence_dtype",
          std::string("float64"),
          "LLaDA: softmax type that ranks candidates; float32 ties tokens it rounds to 1",
          any_low,
          any_high,
          {"float64", "float32"},
          "the official loop's own"};
}

void set_confidence_dtype(unmask_settings& u, bool dream, const parameters& p) {
  u.rank_in_double =
      !dream && u.threshold <= 0 && u.factor <= 0 && p.text("confidence_dtype") == "float64";
}

unmask_settings sampling_settings(bool dream, const parameters& p) {
  unmask_settings u;
  if (dream) {
    u.score = p.text("alg");
    u.temperature = static_cast<float>(p.real("temperature"));
    u.top_p = static_cast<float>(p.real("top_p"));
    u.top_k = static_cast<std::int32_t>(p.integer("top_k"));
    u.alg_temp = static_cast<float>(p.real("alg_temp"));
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

}  // namespace unmask
