// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Forecasts what a plan will take before anything is loaded: answers and forwards from the prompts of
// benchmarks where they are here, hours of a GPU from configurations (a model's own, or its `shape`)
// and a roofline (expected_time.h), which is a prediction and not a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/devices/ceilings.h"
#include "harness/plan/plan.h"

namespace unmask {

struct point_forecast {
  std::int64_t items = 0;     // answers of one pass, every trial counted
  double prompt = 0;          // tokens, mean
  bool prompt_known = false;  // from the files, at four bytes a token; false: assumed
  double generated = 0;       // tokens of an answer's canvas, mean
  double forwards = 0;   // of one pass, a batch counted once: the most there can be, one token each
  double passes = 1;     // warm-up and repetitions, the fewest there can be
  double gpu_hours = 0;  // of all passes; NaN: no configuration is here
};

// Forecasts the time of a point of `spec`. A benchmark whose files are not here has its declared
// number of items, and prompts as long as its harness allows, or 1000 tokens.
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
