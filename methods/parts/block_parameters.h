// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What every block method declares, reads and refuses alike.
#pragma once

#include <string>
#include <vector>

#include "methods/parts/block_pace.h"
#include "methods/parts/block_unmask.h"

namespace unmask {

// block_length, steps, remasking, gamma, kl_threshold, kl_history, threshold, accept_compare,
// temperature, loop, stop, stop_in_prompt_block.
std::vector<parameter_spec> block_parameters(double threshold);
// sampler, confidence_dtype, mask_track, partial_prefill, commit, commit_last: the points at which
// the published engines differ; for methods with a delayed cache.
std::vector<parameter_spec> engine_parameters();
// sampler: the arg-max or a draw.
parameter_spec sampler_parameter();
// A preset of published code that draws its tokens, with the arg-max instead (`sampler`).
parameter_map with_argmax(parameter_map preset);

// The parameter `stop`: the model's stop ids, none, or those that it lists; usage error otherwise.
std::vector<std::int32_t> stop_ids_of(const std::string& method, const model_config& model,
                                      const std::string& stop);

// From resolved parameters. What a method does not declare (loop, steps, remasking, everything of
// engine_parameters()) is LMDeploy's.
block_settings block_settings_of(const std::string& method, const model_config& model,
                                 const parameters& p);
block_unmask_settings block_unmask_settings_of(const model_config& model, const parameters& p);
// Gives the recipe the rule of `remasking`: block_unmask, or KLASS', for which every mask of the
// block has to be computed.
void set_block_rule(const model_config& model, const parameters& p, recipe& r);

// What every block method reads alike of the recorded parameters of the official block loops: `hf`,
// the loop of SDAR's OpenCompass model, and `engine`, LMDeploy's.
parameter_map block_loop_settings(const parameter_map& recorded);

// Usage errors for models that are not block-causal or whose block length nobody names.
void check_block_model(const std::string& method, const model_config& model, const parameters& p);

}  // namespace unmask
