// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The latency profile T(x): how long one decode forward takes by the rows in it, as the scheduler
// sees it (plan, layers, LM head, decisions). Optimus, section 4.3; the grid of its authors' own
// profiling scripts is the default.
#pragma once

#include <functional>
#include <vector>

#include "harness/engine/clock.h"
#include "harness/engine/loop_runner.h"

namespace unmask {

struct latency_grid {
  std::vector<std::int32_t> batches = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  std::vector<std::int32_t> chunks = {0};  // as `make` understands them
  std::int32_t context = 256;              // prompt tokens of every request
  std::int32_t answer_unit = 1;            // answers are as long as a multiple of this, if one fits
  std::int32_t warmup = 3;                 // forwards before the first sample
  std::int32_t repeats = 10;               // samples, of which the median is taken
};

struct latency_sample {
  std::int32_t batch = 0, chunk = 0;
  std::int64_t rows = 0;  // x: rows in the forward
  double seconds = 0;     // median
  std::vector<double> samples;
};

// Rows the model must be made for to take this profile.
std::int32_t latency_rows(const model_config& model,
                          const std::function<recipe(std::int32_t)>& make,
                          const latency_grid& grid);

// One sample per batch and chunk: full batches of decode forwards with the same number of rows,
// the most frequent one. `make` gives the recipe for a chunk. Tokens are arbitrary, and requests
// that end are replaced; prefill forwards are not timed.
std::vector<latency_sample> measure_latency(const transformer& model,
                                            const std::function<recipe(std::int32_t)>& make,
                                            const latency_grid& grid);

table_cost cost_of(const std::vector<latency_sample>& samples);

}  // namespace unmask
