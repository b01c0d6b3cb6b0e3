// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Parameters that every method over LLaDA's and Dream's loops takes under the same names, and what
// they turn into.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "methods/parts/ranked_unmask.h"
#include "methods/parts/specs.h"

namespace unmask {

// Which of the two official loops decodes this model.
inline bool is_dream(const model_config& model) {
  return model.family == model_family::dream;
}

// steps, tokens_per_step, block_length: the schedule of a blockwise loop.
std::vector<parameter_spec> schedule_parameters();
// threshold, factor: Fast-dLLM's parallel decoding.
std::vector<parameter_spec> parallel_parameters();
// <|eot_id|> of the vocabulary that LLaDA's models share.
inline constexpr const char* eot_of_llada = "126348";
// stop_sequences: token ids at which an answer of LLaDA-V's loops ends.
parameter_spec stop_parameter();
// "84,28;35" as two sequences. Usage error that begins with `method` for a text of another form.
std::vector<std::vector<std::int32_t>> stop_sequences_of(const std::string& method,
                                                         const parameters& p);
// gamma: EB-sampler's rule in the place of a method's own.
parameter_spec entropy_bound_parameter();
// Usage error where `method` cannot take it: Dream's loops count steps, and one rule decides.
void check_entropy_bound(const std::string& method, bool dream, const parameters& p);
// alg (with `more` choices), eps, temperature, top_p, top_k, alg_temp of Dream; temperature also of
// LLaDA (Gumbel).
std::vector<parameter_spec> sampling_parameters(const std::vector<std::string>& more = {});

// original_confidence: rank by the model's logits as they are, whatever the draw does to them.
parameter_spec original_confidence_parameter();

// confidence_dtype: the softmax type that ranks LLaDA's candidates, as far as it decides ties.
parameter_spec confidence_parameter();
// Applies it; it has no say in Dream's loops or where a threshold or factor decides.
void set_confidence_dtype(unmask_settings& u, bool dream, const parameters& p);

// Usage error for settings that Dimple's rule (time_schedule by share) does not know.
void check_share_rule(const std::string& method, const parameters& p);

// The decision rule that the sampling parameters describe in Dream's loop or in LLaDA's.
// `threshold` and `factor` are left 0.
unmask_settings sampling_settings(bool dream, const parameters& p);
inline unmask_settings sampling_settings(const model_config& model, const parameters& p) {
  return sampling_settings(is_dream(model), p);
}

// Refuses models that are not bidirectional masked diffusion models.
void need_bidirectional(const std::string& method, const model_config& model);

// Refuses models that predict a token from the position before it (shifted logits, as Dream's).
void need_in_place(const std::string& method, const model_config& model);

}  // namespace unmask
