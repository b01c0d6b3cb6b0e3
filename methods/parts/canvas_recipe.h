// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The whole-canvas recipe that vanilla, SparseD and dLLM-Cache share: LLaDA's block schedule or
// Dream's time schedule, every row of prompt and canvas, all keys, no cache, ranked unmasking. A
// method built on it replaces the slot that its paper changes.
#pragma once

#include <string>
#include <vector>

#include "harness/decode/registry.h"

namespace unmask {

// steps, block_length, threshold, alg, ... : pace and unmasking of both official loops.
std::vector<parameter_spec> canvas_parameters();
// Usage errors, naming `method`, for models and settings that whole-canvas decoding cannot run.
void check_canvas(const std::string& method, const model_config& model, const parameters& p);
// All five slots; `method` names the errors of later requests. `early_stop`: LLaDA's schedule ends with
// the block that holds the answer's end; the positions behind it become that token without a forward.
recipe make_canvas(const std::string& method, const model_config& model, const parameters& p,
                   bool early_stop = false);
// Whether Dream's loop runs (schedule dream, or auto on a model of that family), or Dimple's, which has
// the same steps.
bool dream_schedule(const model_config& model, const parameters& p);
// Steps that the settings plan for a canvas of gen_length tokens: `steps`, or one per
// tokens_per_step.
std::int32_t planned_steps(const parameters& p, std::int32_t gen_length);
// From the recorded parameters of the official loops: Dream's where `alg` was recorded, otherwise
// LLaDA's.
parameter_map whole_canvas_settings(const parameter_map& recorded);

}  // namespace unmask
