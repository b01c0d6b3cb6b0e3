// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/bench.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

// Arguments: rows, width. Reads and writes every element once.
void rms_norm(benchmark::State& state) {
  const std::int64_t rows = state.range(0), width = state.range(1);
  const backend& backend = cpu_backend();
  const tensor x = random_tensor(backend, {rows, width}), w = random_tensor(backend, {width});
  const tensor y = backend.allocate(dtype::f32, {rows, width});
  const auto n = static_cast<double>(rows * width);
  run(state, 4 * n, 8 * n, [&] { backend.run(op::rms_norm{x, w, 1e-6F, y}); });
}
BENCHMARK(rms_norm)
    ->ArgNames({"rows", "width"})
    ->Args({32, 768})
    ->Args({512, 4096})
    ->UseManualTime()
    ->MinTime(0.1);

}  // namespace
}  // namespace unmask::bench
