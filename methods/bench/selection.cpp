// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations by which methods choose keys: SparseD's tile masses and patterns, Focus-dLLM's block
// means and sinks, Sparse-dLLM's scores.
#include <numeric>

#include "kernels/bench/bench.h"
#include "kernels/selection.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"
#include "methods/parts/kernels/block_means.h"

namespace unmask::bench {
namespace {

// One sequence of `tokens` positions, all of them rows, with its keys in pages.
struct context {
  static constexpr std::int64_t heads = 6, dim = 32;
  std::int32_t tokens;
  std::vector<std::int32_t> begin, sequence, position, table;
  tensor q, keys;
  explicit context(std::int64_t n)
      : tokens(static_cast<std::int32_t>(n)),
        begin{0, tokens},
        sequence(static_cast<std::size_t>(n), 0),
        position(static_cast<std::size_t>(n)),
        table(static_cast<std::size_t>((n + kv_page_size - 1) / kv_page_size)),
        q(random_tensor(cpu_backend(), {n, heads, dim})),
        keys(random_tensor(cpu_backend(),
                           {static_cast<std::int64_t>(table.size()), kv_page_size, heads, dim})) {
    std::iota(position.begin(), position.end(), 0);
    std::iota(table.begin(), table.end(), 0);
  }
  row_set rows() const {
    return {1, tokens, begin.data(), sequence.data(), position.data(), nullptr};
  }
  paged_kv cache() const {
    paged_kv kv;
    kv.keys = kv.values = keys.view();
    kv.page_table = table.data();
    kv.table_stride = static_cast<std::int32_t>(table.size());
    return kv;
  }
};

// Arguments: tokens, positions per tile.
void block_mass(benchmark::State& state) {
  const context c(state.range(0));
  const auto size = static_cast<std::int32_t>(state.range(1));
  const std::int64_t blocks = (c.tokens + size - 1) / size;
  const tensor mass = cpu_backend().allocate(dtype::f32, {1, context::heads, blocks, blocks});
  const std::int32_t zero = 0;
  const double n = c.tokens, width = context::heads * context::dim;
  run(state, 2 * n * n * width, 8 * n * width, [&] {
    cpu_backend().run(
        op::block_mass{c.rows(), c.q.view(), c.cache(), &c.tokens, &zero, size, 0.4F, mass});
  });
}
void keep_top_blocks(benchmark::State& state) {
  const auto size = static_cast<std::int32_t>(state.range(1));
  const auto blocks = static_cast<std::int32_t>((state.range(0) + size - 1) / size);
  const tensor mass = random_tensor(cpu_backend(), {1, context::heads, blocks, blocks});
  const tensor keep = cpu_backend().allocate(dtype::u8, {1, context::heads, blocks, blocks});
  const std::int32_t zero = 0, count = blocks * 3 / 10 + 1;
  const double n = static_cast<double>(context::heads) * blocks * blocks;
  run(state, n, 5 * n, [&] {
    cpu_backend().run(op::keep_top_blocks{mass, &blocks, &zero, &blocks, &count, keep});
  });
}
void block_mean_keys(benchmark::State& state) {
  const context c(state.range(0));
  const auto size = static_cast<std::int32_t>(state.range(1));
  const std::int32_t blocks[2] = {0, (c.tokens + size - 1) / size};
  const tensor means =
      cpu_backend().allocate(dtype::f32, {std::int64_t{blocks[1]}, context::heads, context::dim});
  const double n = static_cast<double>(c.tokens) * context::heads * context::dim;
  run(state, n, 4 * n, [&] {
    cpu_backend().run(op::block_mean_keys{1, c.cache(), &c.tokens, size, blocks, means});
  });
}
// Argument: tokens. One mean query against every key, then the best half (Sparse-dLLM) or the best
// hundredth (the sinks of Focus-dLLM).
void key_scores(benchmark::State& state) {
  const context c(state.range(0));
  std::vector<float> score(static_cast<std::size_t>(c.tokens));
  key_set keys;
  keys.kv_length = &c.tokens;
  const double n = static_cast<double>(c.tokens) * context::heads * context::dim;
  run(state, 2 * n, 4 * n, [&] {
    cpu_backend().run(op::key_scores{c.q.view().slice(0, 1), c.cache(), keys, score.data()});
  });
}
void top_indices(benchmark::State& state, double share) {
  const auto n = static_cast<std::int32_t>(state.range(0));
  const tensor score = random_tensor(cpu_backend(), {n});
  const std::int32_t begin[2] = {0, n}, out_begin[2] = {0, static_cast<std::int32_t>(n * share)};
  std::vector<std::int32_t> out(static_cast<std::size_t>(out_begin[1]));
  run(state, n, 4.0 * n, [&] {
    cpu_backend().run(op::top_indices{1, begin, score.as<float>(), out_begin, out.data()});
  });
}

void tiles(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "size"})->Args({2048, 32})->Args({2048, 128})->Args({8192, 128});
  b->UseManualTime()->MinTime(0.05);
}
void lengths(benchmark::internal::Benchmark* b) {
  b->ArgName("tokens")->Arg(2048)->Arg(16384);
  b->UseManualTime()->MinTime(0.05);
}
BENCHMARK(block_mass)->Apply(tiles);
BENCHMARK(keep_top_blocks)->Apply(tiles);
BENCHMARK(block_mean_keys)->ArgNames({"tokens", "size"})->Args({2048, 64})->UseManualTime();
BENCHMARK(key_scores)->Apply(lengths);
BENCHMARK_CAPTURE(top_indices, half, 0.5)->Apply(lengths);
BENCHMARK_CAPTURE(top_indices, sinks, 0.01)->Apply(lengths);

}  // namespace
}  // namespace unmask::bench
