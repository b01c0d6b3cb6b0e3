// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/latency.h"

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr std::int32_t profile_length = 256;  // tokens generated per request
constexpr int most_forwards = 100000;

sequence_request arbitrary_request(const model_config& model, const latency_grid& grid,
                                   std::size_t i) {
  sequence_request r;
  const std::uint64_t key = stream_key(17, i);
  const std::int32_t length = std::min(grid.context, model.max_positions / 2);
  for (std::int32_t p = 0; p < length; ++p) {
    std::int32_t id = static_cast<std::int32_t>(uniform_open(key, static_cast<std::uint64_t>(p)) *
                                                model.vocabulary);
    if (id == model.mask_id) id = 0;
    r.prompt.push_back(id);
  }
  r.gen_length = std::min(profile_length, model.max_positions - length - 64);
  if (r.gen_length <= 0) throw usage_error("latency profile: the context leaves no room to decode");
  // Some methods decode multiples of their block only, and the unit is a length that they take.
  if (grid.answer_unit <= r.gen_length) r.gen_length -= r.gen_length % grid.answer_unit;
  r.seed = key;
  r.id = static_cast<std::int64_t>(i);
  return r;
}

latency_sample measure(const transformer& model, recipe method, const latency_grid& grid,
                       std::int32_t batch) {
  const std::int32_t length =
      method.pace->canvas_length(model.config(), arbitrary_request(model.config(), grid, 0));
  loop_runner runner(model, std::move(method), {batch, length, 0},
                     [&](std::size_t i) { return arbitrary_request(model.config(), grid, i); });
  std::vector<schedule_action> parts(static_cast<std::size_t>(batch));
  std::vector<place_progress> progress(static_cast<std::size_t>(batch));
  std::map<std::int64_t, std::vector<double>> by_rows;
  engine_clock clock;
  std::size_t next = 0;
  std::int32_t warm = 0;
  for (int i = 0; i < most_forwards; ++i) {
    // Refill, and prefill one by one so that the model needs room for one prompt only.
    for (std::int32_t free = runner.admit(next, false); free >= 0;
         free = runner.admit(next, false)) {
      ++next;
      while (runner.prefilling(free)) {
        std::ranges::fill(parts, schedule_action::out);
        parts[static_cast<std::size_t>(free)] = schedule_action::step;
        runner.forward(parts, progress);
      }
    }
    std::ranges::fill(parts, schedule_action::step);
    clock.begin_forward();
    runner.forward(parts, progress);
    const double seconds = clock.end_forward({});
    std::int64_t rows = 0;
    for (std::int32_t s = 0; s < batch; ++s) {
      rows += progress[static_cast<std::size_t>(s)].rows;
      if (progress[static_cast<std::size_t>(s)].finished) runner.release(s);
    }
    if (++warm <= grid.warmup) continue;
    std::vector<double>& samples = by_rows[rows];
    samples.push_back(seconds);
    if (samples.size() < static_cast<std::size_t>(grid.repeats)) continue;
    latency_sample sample{batch, 0, rows, 0, samples};
    std::ranges::sort(samples);
    const std::size_t half = samples.size() / 2;
    sample.seconds = samples.size() % 2 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
    return sample;
  }
  throw usage_error("latency profile: no number of rows came up often enough");
}

}  // namespace

// Decoding rows of a full batch, or one prompt: measure() lets them in one by one.
std::int32_t latency_rows(const model_config& model,
                          const std::function<recipe(std::int32_t)>& make,
                          const latency_grid& grid) {
  const std::int32_t batch = *std::ranges::max_element(grid.batches);
  const std::vector<sequence_request> requests(static_cast<std::size_t>(batch),
                                               arbitrary_request(model, grid, 0));
  std::int32_t rows = 1;
  for (const std::int32_t chunk : grid.chunks) {
    rows = std::max(rows, engine_rows(model, *make(chunk).pace, requests, batch, 1, 0));
  }
  return rows;
}

std::vector<latency_sample> measure_latency(const transformer& model,
                                            const std::function<recipe(std::int32_t)>& make,
                                            const latency_grid& grid) {
  if (grid.batches.empty() || grid.chunks.empty() || grid.repeats < 1) {
    throw usage_error("latency profile: the grid needs batches, chunks and repeats");
  }
  std::vector<latency_sample> all;
  for (const std::int32_t chunk : grid.chunks) {
    for (const std::int32_t batch : grid.batches) {
      all.push_back(measure(model, make(chunk), grid, batch));
      all.back().chunk = chunk;
    }
  }
  return all;
}

table_cost cost_of(const std::vector<latency_sample>& samples) {
  std::vector<table_cost::sample> table;
  for (const latency_sample& s : samples) {
    table.push_back({static_cast<double>(s.rows), s.seconds});
  }
  return table_cost(std::move(table));
}

}  // namespace unmask
