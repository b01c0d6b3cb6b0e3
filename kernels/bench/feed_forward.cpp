// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The whole feed-forward layer (gate and up, silu and product, down) and its middle alone.
#include "kernels/bench/bench.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

// Arguments: rows, hidden width F.
void silu_mul(benchmark::State& state) {
  const std::int64_t rows = state.range(0), hidden = state.range(1);
  const backend& backend = cpu_backend();
  const tensor x = random_tensor(backend, {rows, 2 * hidden});
  const tensor y = backend.allocate(dtype::f32, {rows, hidden});
  const auto n = static_cast<double>(rows * hidden);
  run(state, 20 * n, 12 * n, [&] { backend.run(op::silu_mul{x, y}); });
}
BENCHMARK(silu_mul)
    ->ArgNames({"rows", "hidden"})
    ->Args({32, 2048})
    ->Args({512, 2048})
    ->UseManualTime()
    ->MinTime(0.1);

// Arguments: rows, width D, hidden width F.
void feed_forward(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1), hidden = state.range(2);
  const backend& backend = cpu_backend();
  const tensor x = random_tensor(backend, {rows, width});
  const auto up =
      backend.pack(random_tensor(backend, {2 * hidden, width}, 0.03F), weight_format::f32);
  const auto down =
      backend.pack(random_tensor(backend, {width, hidden}, 0.03F), weight_format::f32);
  const tensor both = backend.allocate(dtype::f32, {rows, 2 * hidden});
  const tensor inner = backend.allocate(dtype::f32, {rows, hidden});
  const tensor y = backend.allocate(dtype::f32, {rows, width});
  const auto weights = static_cast<double>(3 * width * hidden);
  run(state, 2.0 * static_cast<double>(rows) * weights, 4 * weights, [&] {
    backend.run(op::linear{x, *up, {}, both, false});
    backend.run(op::silu_mul{both, inner});
    backend.run(op::linear{inner, *down, {}, y, false});
  });
}
BENCHMARK(feed_forward)
    ->ArgNames({"rows", "width", "hidden"})
    ->Args({1, 768, 2048})
    ->Args({32, 768, 2048})
    ->Args({32, 192, 512})
    ->UseManualTime()
    ->MinTime(0.2);

}  // namespace
}  // namespace unmask::bench
