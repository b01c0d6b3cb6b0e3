// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a plan will take before anything is loaded: answers, forwards and hours of a GPU, from the
// files of benchmarks where they are here, from configurations (a model's own, or its `shape`), and
// from the cost model, which is a prediction and not a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/decode/registry.h"
#include "harness/experiment/plan.h"
#include "harness/profile/ceilings.h"
#include "harness/profile/cost_model.h"

namespace unmask {

// How long a method should take on a GPU, before it is run, for plans of campaigns: answers, batch,
// prompt and generated tokens are given, and decode forwards per answer (0: one per token, the most
// there can be); the rest of the run is filled in.

// Seconds of one GPU: the rows that the method declares (method_info::shape) through the cost model,
// prompts entering once where the method keeps them. `given`: resolved parameters.
double expected_gpu_seconds(const model_config& model, const method_info& method,
                            const parameters& given, const cost_run& run,
                            const device_ceilings& device);

cost_shape cost_shape_of(const model_config& model);

// The same as a run of the cost model.
cost_run cost_run_of(const model_config& model, const method_info& method, const parameters& given,
                     cost_run run);

struct point_forecast {
  std::int64_t items = 0;     // answers of one pass, every trial counted
  double prompt = 0;          // tokens, mean
  bool prompt_known = false;  // from the files, at four bytes a token; false: assumed
  double generated = 0;       // tokens of an answer's canvas, mean
  double forwards = 0;   // of one pass, a batch counted once: the most there can be, one token each
  double passes = 1;     // warm-up and repetitions, the fewest there can be
  double gpu_hours = 0;  // of all passes; NaN: no configuration is here
};

// Of a point of `spec`. A benchmark whose files are not here has its declared number of items, and
// prompts as long as its harness allows, or 1000 tokens.
point_forecast forecast(const experiment_spec& spec, const experiment_point& point,
                        const device_ceilings& device);

// The plan with these columns, and their sums.
std::string forecast_table(const experiment_spec& spec, const std::vector<experiment_point>& points,
                           const device_ceilings& device);

struct plan_forecast {
  std::size_t points = 0;
  std::int64_t answers = 0;  // of all passes
  double forwards = 0, gpu_hours = 0;
  std::size_t without_hours = 0;  // points whose model has no configuration here
};
plan_forecast forecast_of(const experiment_spec& spec, const std::vector<experiment_point>& points,
                          const device_ceilings& device);

}  // namespace unmask
