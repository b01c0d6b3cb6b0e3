// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How long a method should take on a GPU, before it is run: for plans of campaigns.
#pragma once

#include "harness/decode/registry.h"
#include "harness/profile/cost_model.h"

namespace unmask {

struct expected_run {
  double answers = 1;    // items x trials
  double batch = 1;      // answers decoded together
  double prompt = 0;     // tokens, mean
  double generated = 0;  // tokens of the canvas
  double forwards = 0;   // decode forwards per answer; 0: one per token, the most there can be
};

// Seconds of one GPU: the rows that the method declares (method_info::shape) through the cost model,
// prompts entering once where the method keeps them. `given`: resolved parameters.
double expected_gpu_seconds(const model_config& model, const method_info& method,
                            const parameters& given, const expected_run& run,
                            const device_ceilings& device);

cost_shape cost_shape_of(const model_config& model);

// The same as a run of the cost model.
cost_run cost_run_of(const model_config& model, const method_info& method, const parameters& given,
                     const expected_run& run);

}  // namespace unmask
