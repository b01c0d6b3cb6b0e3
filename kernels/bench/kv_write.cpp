// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/bench.h"
#include "kernels/model_core.h"

namespace unmask::bench {
namespace {

// Arguments: rows, KV heads, head dimension. Reads and writes keys and values once.
void kv_write(benchmark::State& state) {
  const std::int64_t rows = state.range(0), kv_heads = state.range(1), dim = state.range(2);
  const backend& backend = cpu_backend();
  const std::int64_t pages = (rows + kv_page_size - 1) / kv_page_size;
  const tensor keys = backend.allocate(dtype::f32, {pages, kv_page_size, kv_heads, dim});
  const tensor values = backend.allocate(dtype::f32, {pages, kv_page_size, kv_heads, dim});
  const tensor k = random_tensor(backend, {rows, kv_heads, dim});
  const tensor v = random_tensor(backend, {rows, kv_heads, dim});
  std::vector<std::int32_t> table, position, sequence(static_cast<std::size_t>(rows), 0);
  for (std::int64_t p = 0; p < pages; ++p) table.push_back(static_cast<std::int32_t>(p));
  for (std::int64_t r = 0; r < rows; ++r) position.push_back(static_cast<std::int32_t>(r));
  const std::int32_t begin[2] = {0, static_cast<std::int32_t>(rows)};
  const row_set set{1, begin[1], begin, sequence.data(), position.data(), nullptr};
  const paged_kv cache{keys, values, table.data(), static_cast<std::int32_t>(pages)};
  run(state, 0, 16.0 * static_cast<double>(rows * kv_heads * dim), [&] {
    backend.run(op::kv_write{set, k, v, cache});
  });
}
BENCHMARK(kv_write)
    ->ArgNames({"rows", "kv", "dim"})
    ->Args({32, 12, 64})
    ->Args({512, 8, 128})
    ->UseManualTime()
    ->MinTime(0.1);

}  // namespace
}  // namespace unmask::bench
