// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Forecasts what a plan will take before anything is loaded: answers and forwards from the prompts of
// benchmarks where they are here, from the lengths and arrivals that a served plan draws, hours of a GPU
// from configurations (a model's own, or that of its key `config`) and a roofline (expected_time.h),
// which is a prediction and not a measurement. What cannot be known before the run is not a number (NaN).
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/devices/ceilings.h"
#include "harness/plan/expected_memory.h"
#include "harness/plan/plan.h"

namespace unmask {

struct point_forecast {
  // Answers of one pass, every trial counted; of a served plan the requests that arrive.
  double items = std::nan("");
  double prompt = std::nan("");     // tokens, mean
  bool prompt_guessed = false;      // of a benchmark whose prompts are not written yet
  double generated = std::nan("");  // tokens of an answer's canvas, mean
  // Of one pass, a batch counted once: the most there can be, one token each. Arrivals may leave every
  // request alone in its forwards; closed batches keep all places taken to the end.
  double forwards = std::nan("");
  double passes = 1;  // warm-up and repetitions, the fewest there can be
  bool on_gpu = false;
  double gpu_hours = std::nan("");  // of all passes on a GPU
  bool at_least = false;            // of the hours only what the arrivals take is known
  double work = 0;                  // hours by the same roofline whatever the device, to compare
  run_memory memory;                // of a point that computes its layers
  bool memory_known = false;
  bool memory_guessed = false;    // its prompts' lengths are estimated
  std::string unknown, no_hours;  // why something is not known, and why there are no hours
};

// Forecasts the time of a point of `spec`. A benchmark whose files are not here has its declared
// number of items, and prompts as long as its harness allows, or 1000 tokens.
point_forecast forecast(const experiment_spec& spec, const experiment_point& point,
                        const device_ceilings& device);

// The plan with these columns, and their sums.
std::string forecast_table(const experiment_spec& spec, const std::vector<experiment_point>& points,
                           const device_ceilings& device);

// A sum over points, some of which say nothing.
struct partial_sum {
  double known = 0;
  std::size_t unknown = 0, points = 0;
  void add(double value);
  void add(const partial_sum& other);
  std::string text() const;  // "12", "at least 12; 3 points unknown" or "unknown"
};

struct plan_forecast {
  std::size_t points = 0;
  partial_sum answers, forwards;  // of all passes
  partial_sum gpu_hours;          // of the points on a GPU
  bool at_least = false;          // of some hours only the least is known
  double work = 0;
  // Of the points on a GPU: bytes of the largest, how many are not known, how many its card lacks.
  double most_memory = 0, card_memory = 0;
  std::size_t memory_unknown = 0, beyond_card = 0;
  std::map<std::string, std::size_t> why;  // points by what they say of unknown values and hours

  explicit plan_forecast(const device_ceilings& device) : card_memory(device.memory_bytes) {}
  void add(const point_forecast& f);
  void add(const plan_forecast& other);
  std::string memory_text() const;           // "61.2 of 79 GB", "none" without a GPU, or "unknown"
  std::string hours_text() const;            // as partial_sum::text(), or "none"
  std::vector<std::string> reasons() const;  // "3 points: WHY"
};
plan_forecast forecast_of(const experiment_spec& spec, const std::vector<experiment_point>& points,
                          const device_ceilings& device);

}  // namespace unmask
