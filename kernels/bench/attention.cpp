// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention: 32 queries, 8 heads of 64, over L keys in pages; and the shape of one decoded token.
#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/attention.h"
#include "kernels/bench/bench.h"

namespace unmask::bench {
namespace {

// Queries of `rows` rows and the pages of `length` keys.
struct operands {
  const backend& on = cpu_backend();
  std::int64_t pages;
  tensor keys, values, q, out;
  float scale;
  operands(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
           std::int64_t length)
      : pages((length + kv_page_size - 1) / kv_page_size),
        keys(random_tensor(on, {pages, kv_page_size, kv_heads, dim})),
        values(random_tensor(on, {pages, kv_page_size, kv_heads, dim})),
        q(random_tensor(on, {rows, heads, dim})),
        out(on.allocate(dtype::f32, {rows, heads, dim})),
        scale(1.0F / std::sqrt(static_cast<float>(dim))) {}
};

// Arguments: rows, heads, KV heads, head dimension, keys.
void attention(benchmark::State& state) {
  const std::int64_t rows = state.range(0), heads = state.range(1), kv_heads = state.range(2);
  const std::int64_t dim = state.range(3), length = state.range(4);
  const operands o(rows, heads, kv_heads, dim, length);
  std::vector<std::int32_t> table, position, sequence(static_cast<std::size_t>(rows), 0);
  for (std::int64_t p = 0; p < o.pages; ++p) table.push_back(static_cast<std::int32_t>(p));
  for (std::int64_t r = 0; r < rows; ++r) {
    position.push_back(static_cast<std::int32_t>(length - rows + r));
  }
  const std::int32_t begin[2] = {0, static_cast<std::int32_t>(rows)};
  const auto kv_length = static_cast<std::int32_t>(length);
  const row_set set{1, begin[1], begin, sequence.data(), position.data(), nullptr};
  const paged_kv cache{o.keys, o.values, table.data(), static_cast<std::int32_t>(o.pages)};
  key_set seen;
  seen.kv_length = &kv_length;
  const double flops = 4.0 * static_cast<double>(rows * heads * dim * length);
  const double bytes = 8.0 * static_cast<double>((length * kv_heads + rows * heads) * dim);
  run(state, flops, bytes, [&] {
    o.on.run(op::attention{set, o.q, cache, seen, o.scale, o.out, {}});
  });
}
BENCHMARK(attention)
    ->ArgNames({"rows", "heads", "kv", "dim", "keys"})
    ->Args({32, 8, 8, 64, 128})
    ->Args({32, 8, 8, 64, 1024})
    ->Args({32, 8, 8, 64, 8192})
    ->Args({32, 32, 8, 128, 1024})
    ->Args({512, 12, 12, 64, 512})
    ->Args({1, 8, 8, 64, 1024})
    ->UseManualTime()
    ->MinTime(0.3);

// Self-attention of `length` rows under a block mask that keeps `percent` of the tiles at random,
// against the same rows without one. Arguments: length, heads, KV heads, head dimension, block, %.
void attention_block_mask(benchmark::State& state) {
  const std::int64_t length = state.range(0), heads = state.range(1), kv_heads = state.range(2);
  const std::int64_t dim = state.range(3), size = state.range(4);
  const std::int64_t blocks = (length + size - 1) / size;
  const operands o(length, heads, kv_heads, dim, length);
  std::vector<std::int32_t> table, position, sequence(static_cast<std::size_t>(length), 0);
  for (std::int64_t p = 0; p < o.pages; ++p) table.push_back(static_cast<std::int32_t>(p));
  for (std::int64_t r = 0; r < length; ++r) position.push_back(static_cast<std::int32_t>(r));
  std::mt19937 rng(2);
  std::vector<std::uint8_t> keep(static_cast<std::size_t>(heads * blocks * blocks));
  for (std::uint8_t& k : keep) {
    k = static_cast<std::int64_t>(rng() % 100) < state.range(5) ? 1 : 0;
  }
  const std::uint8_t applies = 1;
  const std::int32_t begin[2] = {0, static_cast<std::int32_t>(length)};
  const row_set set{1, begin[1], begin, sequence.data(), position.data(), nullptr};
  const paged_kv cache{o.keys, o.values, table.data(), static_cast<std::int32_t>(o.pages)};
  key_set dense;
  dense.kv_length = begin + 1;
  key_set sparse = dense;
  sparse.tiles = {keep.data(), &applies, static_cast<std::int32_t>(blocks),
                  static_cast<std::int32_t>(size)};
  const auto taken =
      interleave(state, {[&] {
                           o.on.run(op::attention{set, o.q, cache, sparse, o.scale, o.out, {}});
                         },
                         [&] {
                           o.on.run(op::attention{set, o.q, cache, dense, o.scale, o.out, {}});
                         }});
  const double kept = static_cast<double>(std::count(keep.begin(), keep.end(), 1)) /
                      static_cast<double>(keep.size());
  const double flops = 4.0 * static_cast<double>(length * length * heads * dim) * kept;
  const double bytes = 8.0 * static_cast<double>((length * kv_heads + length * heads) * dim);
  report(state, taken[0], flops, bytes);
  state.counters["of_dense"] = taken[0].median / taken[1].median;
}
BENCHMARK(attention_block_mask)
    ->ArgNames({"length", "heads", "kv", "dim", "block", "percent"})
    ->Args({2048, 4, 4, 128, 128, 30})
    ->Args({2048, 4, 4, 128, 32, 30})
    ->Args({2048, 7, 1, 128, 128, 30})
    ->Args({2048, 4, 4, 128, 128, 100})
    ->UseManualTime()
    ->MinTime(0.3);

// A block's rows that each miss the slot of their own, as views with a row each,
// against the same rows as one sequence that sees all. Arguments: rows, heads, KV heads, head dimension,
// keys.
void attention_views(benchmark::State& state) {
  const std::int64_t rows = state.range(0), heads = state.range(1), kv_heads = state.range(2);
  const std::int64_t dim = state.range(3), length = state.range(4);
  const operands o(rows, heads, kv_heads, dim, length);
  std::vector<std::int32_t> table, position, view, begin{0}, key_begin{0}, slot;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto own = static_cast<std::int32_t>(length - rows + r);
    for (std::int64_t p = 0; p < o.pages; ++p) table.push_back(static_cast<std::int32_t>(p));
    for (std::int32_t at = 0; at < length; ++at) {
      if (at != own) slot.push_back(at);
    }
    position.push_back(own);
    view.push_back(static_cast<std::int32_t>(r));
    begin.push_back(static_cast<std::int32_t>(r + 1));
    key_begin.push_back(static_cast<std::int32_t>(slot.size()));
  }
  const auto count = static_cast<std::int32_t>(rows), kv_length = static_cast<std::int32_t>(length);
  const std::vector<std::int32_t> none(static_cast<std::size_t>(rows), 0);
  const std::int32_t all[2] = {0, count};
  const row_set apart{count, count, begin.data(), view.data(), position.data(), nullptr};
  const row_set together{1, count, all, none.data(), position.data(), nullptr};
  const paged_kv cache{o.keys, o.values, table.data(), static_cast<std::int32_t>(o.pages)};
  key_set own_keys, every;
  own_keys.key_begin = key_begin.data();
  own_keys.key_slot = slot.data();
  every.kv_length = &kv_length;
  const auto taken =
      interleave(state, {[&] {
                           o.on.run(op::attention{apart, o.q, cache, own_keys, o.scale, o.out, {}});
                         },
                         [&] {
                           o.on.run(op::attention{together, o.q, cache, every, o.scale, o.out, {}});
                         }});
  report(state, taken[0], 4.0 * static_cast<double>(rows * heads * dim * length),
         8.0 * static_cast<double>((length * kv_heads + rows * heads) * dim));
  state.counters["of_one_sequence"] = taken[0].median / taken[1].median;
}
BENCHMARK(attention_views)
    ->ArgNames({"rows", "heads", "kv", "dim", "keys"})
    ->Args({32, 6, 6, 32, 128})
    ->Args({32, 8, 8, 64, 512})
    ->UseManualTime()
    ->MinTime(0.3);

}  // namespace
}  // namespace unmask::bench
