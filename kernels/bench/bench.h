// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the benchmarks share: random operands, interleaved timing, and the counters every
// benchmark prints: GFLOP/s, GB/s and the percentage of the machine's roof.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "kernels/backend.h"
#include "kernels/bench/roofs.h"
#include "kernels/float16.h"
#include "kernels/random.h"

namespace unmask::bench {

inline double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> x) {
  if (x.empty()) return 0;
  const auto middle = x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2);
  std::nth_element(x.begin(), middle, x.end());
  return *middle;
}

// Median and best of a piece of work, seconds. The median is the figure to quote; on a machine
// with more runnable processes than cores the best tells what the code does between interruptions.
struct timing {
  double median = 0, best = 0;
};
inline timing summary(const std::vector<double>& samples) {
  if (samples.empty()) return {};
  return {median(samples), *std::min_element(samples.begin(), samples.end())};
}

// Copies from the host into memory of the backend, which the host may not reach.
template <class Backend>
void send(const Backend& backend, void* to, const void* from, std::size_t bytes) {
  if constexpr (requires { backend.write(to, from, bytes); }) {
    backend.write(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

// A tensor of the backend filled with normal numbers, one of 65,536 each. Drawing each from a
// distribution took 0.84 s of a core for 50 million; the head of an 8B model has 622 million. float32 or
// bfloat16.
inline tensor random_tensor(const backend& backend, std::initializer_list<std::int64_t> shape,
                            float scale = 1.0F, dtype type = dtype::f32) {
  constexpr std::size_t levels = 1 << 16;
  static const std::vector<float> normal = [] {
    std::mt19937 rng(1);
    std::normal_distribution<float> draw;
    std::vector<float> table(levels);
    std::ranges::generate(table, [&] { return draw(rng); });
    return table;
  }();
  static std::uint64_t tensors = 0;
  const std::uint64_t key = stream_key(1, ++tensors);
  tensor t = backend.allocate(type, shape);
  const std::int64_t count = t.view().elements();
  std::vector<float> values(static_cast<std::size_t>(count));
  float* out = values.data();
  constexpr std::int64_t draws = 8;  // of 16 bits, in a Philox block
#pragma omp parallel for
  for (std::int64_t i = 0; i < count; i += draws) {
    const philox4 r = philox4x32(key, 0, static_cast<std::uint64_t>(i / draws));
    for (std::int64_t j = 0; j < std::min(draws, count - i); ++j) {
      out[i + j] = scale * normal[r.x[j / 2] >> (16 * (j % 2)) & (levels - 1)];
    }
  }
  std::vector<std::uint16_t> half(type == dtype::bf16 ? values.size() : 0);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = to_bf16(out[i]);
  send(backend, t.view().data, half.empty() ? static_cast<const void*>(out) : half.data(),
       t.bytes());
  return t;
}

// GFLOP/s, GB/s and % of the roof: the least time that the flops or the bytes need on this
// machine over the time taken, all by the median.
inline void report(benchmark::State& state, const timing& taken, double flops, double bytes,
                   double flops_roof = measured_roofs().f32_flops) {
  const double seconds = taken.median;
  const double least = std::max(flops / flops_roof, bytes / measured_roofs().triad_bytes);
  state.counters["median_us"] = seconds * 1e6;
  state.counters["best_us"] = taken.best * 1e6;
  state.counters["GFLOP/s"] = flops / seconds / 1e9;
  state.counters["GB/s"] = bytes / seconds / 1e9;
  state.counters["%roof"] = 100 * least / seconds;
  state.counters["best_%roof"] = 100 * least / taken.best;  // other work costs it least
  // No kernel is faster than the machine, and a quiet machine gives a roof's threads nearly all of its time
  // (harness/devices/machine_use.h): else the roof was measured while other work ran.
  if (least > 1.05 * taken.best || measured_roofs().own_share < 0.7) {
    state.counters["roof_uncertain"] = 1;
  }
}

// Times `work` once per iteration and reports the median.
inline void run(benchmark::State& state, double flops, double bytes,
                const std::function<void()>& work) {
  work();  // the first call allocates its scratch
  std::vector<double> samples;
  for (auto _ : state) {
    samples.push_back(seconds_of(work));
    state.SetIterationTime(samples.back());
  }
  report(state, summary(samples), flops, bytes);
}

// Times several pieces of work in turn, forwards and then backwards; the iteration time is the
// first one's.
inline std::vector<timing> interleave(benchmark::State& state,
                                      const std::vector<std::function<void()>>& work) {
  std::vector<std::vector<double>> samples(work.size());
  for (const auto& w : work) w();
  bool forward = true;
  for (auto _ : state) {
    for (std::size_t i = 0; i < work.size(); ++i) {
      const std::size_t k = forward ? i : work.size() - 1 - i;
      samples[k].push_back(seconds_of(work[k]));
    }
    forward = !forward;
    state.SetIterationTime(samples[0].back());
  }
  std::vector<timing> all;
  for (const auto& s : samples) all.push_back(summary(s));
  return all;
}

// Registers the cases of the CUDA backend, cuda_*, where there is a GPU; elsewhere says in one line
// on standard error that they are NOT RUN and why. UNMASK_BENCH_EMULATED=1 registers emulated_*
// instead: the same code on the emulator at small sizes, to test it; their times mean nothing.
// UNMASK_BENCH_SMALL=1 registers cuda_* at these sizes, for a GPU in software (tests/softgpu).
void register_device_cases();

}  // namespace unmask::bench
