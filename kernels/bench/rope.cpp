// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/bench.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

// Arguments: rows, heads, head dimension, whether the heads are normalised first. In place.
void head_norm_rope(benchmark::State& state) {
  const std::int64_t rows = state.range(0), heads = state.range(1), dim = state.range(2);
  const backend& backend = cpu_backend();
  const tensor x = random_tensor(backend, {rows, heads, dim}), w = random_tensor(backend, {dim});
  std::vector<std::int32_t> position(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < position.size(); ++r) position[r] = static_cast<std::int32_t>(r);
  const rope_params rope{static_cast<std::int32_t>(dim), 10000.0F};
  const auto n = static_cast<double>(rows * heads * dim);
  const tensor_view norm = state.range(3) != 0 ? w.view() : tensor_view{};
  run(state, 7 * n, 8 * n, [&] {
    backend.run(op::head_norm_rope{x, norm, 1e-6F, rope, position.data()});
  });
}
BENCHMARK(head_norm_rope)
    ->ArgNames({"rows", "heads", "dim", "norm"})
    ->Args({32, 12, 64, 0})
    ->Args({32, 12, 64, 1})
    ->Args({512, 32, 128, 1})
    ->UseManualTime()
    ->MinTime(0.1);

}  // namespace
}  // namespace unmask::bench
