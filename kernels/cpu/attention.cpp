// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/crowd.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/scratch.h"

namespace unmask::cpu {

const attention_kernels& active_attention_kernels() {
  return with_vector(
      active_isa(), []<class V>() -> auto& { return attention_kernels_of<V>(); });
}

namespace {

// One call: the operands and how the work is cut. Grow-only vectors, one set per calling thread.
struct job {
  const row_set& rows;
  const tensor_view& q;
  const paged_kv& cache;
  const key_set& keys;
  const tensor_view& out;
  float scale;
  std::int64_t heads, kv_heads, group, dim;
  const attention_kernels& kernels;
  float* peak;         // [R, heads] per query vector, or null
  float* inverse_sum;  // the same
};

std::int32_t key_count(const key_set& keys, std::int32_t s) {
  if (keys.key_begin == nullptr) return keys.kv_length[s];
  return keys.key_begin[s + 1] - keys.key_begin[s];
}

// First slot that a row at this position may not see.
std::int32_t limit_of(const key_set& keys, std::int32_t position) {
  switch (keys.mask) {
    case mask_kind::full:
      return std::numeric_limits<std::int32_t>::max();
    case mask_kind::causal:
      return position + 1;
    case mask_kind::block_causal:
      return (position / keys.block + 1) * keys.block;
  }
  throw std::logic_error("attention: unknown mask");
}

std::int64_t tiles_of(const job& j, std::int32_t s) {
  const std::int64_t vectors = (j.rows.row_begin[s + 1] - j.rows.row_begin[s]) * j.group;
  return (vectors + j.kernels.lanes - 1) / j.kernels.lanes;
}

// Query vectors [tile * lanes, ...) of KV head `head` in sequence s. Vector i belongs to row
// i / group and query head head * group + i % group.
attention_tile make_tile(const job& j, std::int32_t s, std::int64_t head, std::int64_t tile) {
  attention_tile t;
  const std::int32_t begin = j.rows.row_begin[s];
  const std::int64_t vectors = (j.rows.row_begin[s + 1] - begin) * j.group;
  const std::int64_t first = tile * j.kernels.lanes;
  t.dim = j.dim;
  t.lanes = static_cast<int>(std::min<std::int64_t>(j.kernels.lanes, vectors - first));
  t.low_limit = std::numeric_limits<std::int32_t>::max();
  t.high_limit = 0;
  for (int i = 0; i < t.lanes; ++i) {
    const std::int64_t row = begin + (first + i) / j.group;
    const std::int64_t column = (head * j.group + (first + i) % j.group) * j.dim;
    t.query[i] = j.q.row<float>(row) + column;
    t.out[i] = j.out.row<float>(row) + column;
    t.limit[i] = limit_of(j.keys, j.rows.position[row]);
    t.low_limit = std::min(t.low_limit, t.limit[i]);
    t.high_limit = std::max(t.high_limit, t.limit[i]);
  }
  t.scale = j.scale;
  t.stride = j.kv_heads * j.dim;
  t.keys = j.cache.keys.as<float>() + head * j.dim;
  t.values = j.cache.values.as<float>() + head * j.dim;
  t.page_table = j.cache.page_table + std::int64_t{s} * j.cache.table_stride;
  t.list = j.keys.key_begin == nullptr ? nullptr : j.keys.key_slot + j.keys.key_begin[s];
  t.count = key_count(j.keys, s);
  if (j.peak != nullptr) {
    const std::int64_t at = begin * j.heads + head * vectors + first;
    t.peak = j.peak + at;
    t.inverse_sum = j.inverse_sum + at;
  }
  return t;
}

bool masked(const key_set& keys, std::int32_t s) {
  return keys.tiles.keep != nullptr && keys.tiles.applies[s] != 0;
}

// Consecutive rows of one sequence and one query block, at most `lanes` of them.
struct row_tile {
  std::int32_t first = 0, count = 0;
};

void add_row_tiles(const job& j, std::int32_t s, std::vector<row_tile>& tiles) {
  const std::int32_t* position = j.rows.position;
  const std::int32_t size = j.keys.tiles.size, last = j.rows.row_begin[s + 1];
  for (std::int32_t r = j.rows.row_begin[s]; r < last;) {
    const std::int32_t begin = r, block = position[r] / size;
    while (r < last && r - begin < j.kernels.lanes && position[r] / size == block) ++r;
    tiles.push_back({begin, r - begin});
  }
}

// Keys of the kept blocks in `keep`, cut where pages end, neighbours joined.
void kept_runs(const std::uint8_t* keep, std::int32_t size, std::int32_t count,
               std::vector<key_run>& runs) {
  runs.clear();
  runs.reserve(1);  // data() of an empty list is not null: null means all keys
  for (std::int32_t block = 0; block * size < count; ++block) {
    if (keep[block] == 0) continue;
    const std::int32_t last = std::min(count, (block + 1) * size);
    for (std::int32_t first = block * size; first < last;) {
      const std::int32_t end = std::min(last, (first / kv_page_size + 1) * kv_page_size);
      const bool joins = !runs.empty() && runs.back().first + runs.back().count == first &&
                         first % kv_page_size != 0;
      if (joins) {
        runs.back().count += end - first;
      } else {
        runs.push_back({first, end - first});
      }
      first = end;
    }
  }
}

// The rows of `rows` under one query head, against the keys that the head keeps for them.
attention_tile make_masked_tile(const job& j, std::int32_t s, std::int64_t head,
                                const row_tile& rows, std::vector<key_run>& runs) {
  const block_mask& mask = j.keys.tiles;
  attention_tile t;
  t.dim = j.dim;
  t.lanes = rows.count;
  t.low_limit = std::numeric_limits<std::int32_t>::max();
  for (int i = 0; i < t.lanes; ++i) {
    const std::int64_t row = rows.first + i;
    t.query[i] = j.q.row<float>(row) + head * j.dim;
    t.out[i] = j.out.row<float>(row) + head * j.dim;
    t.limit[i] = limit_of(j.keys, j.rows.position[row]);
    t.low_limit = std::min(t.low_limit, t.limit[i]);
    t.high_limit = std::max(t.high_limit, t.limit[i]);
  }
  t.scale = j.scale;
  t.stride = j.kv_heads * j.dim;
  t.keys = j.cache.keys.as<float>() + head / j.group * j.dim;
  t.values = j.cache.values.as<float>() + head / j.group * j.dim;
  t.page_table = j.cache.page_table + std::int64_t{s} * j.cache.table_stride;
  t.count = key_count(j.keys, s);
  const std::int64_t query_block = j.rows.position[rows.first] / mask.size;
  kept_runs(mask.keep + ((s * j.heads + head) * mask.blocks + query_block) * mask.blocks, mask.size,
            t.count, runs);
  t.runs = runs.data();
  t.run_count = static_cast<std::int32_t>(runs.size());
  return t;
}

// Scratch of the calling thread.
float* tile_scratch(std::int64_t dim) {
  thread_local scratch memory;
  return memory.get<float>(attention_scratch(dim));
}

// Every block of 64 keys belongs to one thread, which adds heads and tiles in a fixed order.
void add_mass(const job& j, std::int32_t s, std::int32_t first, float* mass) {
  float* scratch = tile_scratch(j.dim);
  for (std::int64_t head = 0; head < j.kv_heads; ++head) {
    for (std::int64_t tile = 0; tile < tiles_of(j, s); ++tile) {
      attention_tile t = make_tile(j, s, head, tile);
      t.scratch = scratch;
      j.kernels.mass(t, page_run(t, first), mass + first);
    }
  }
}

// Sequence and place inside it of a unit of work, given where each sequence's units begin.
std::int32_t sequence_of(const std::vector<std::int64_t>& begin, std::int64_t unit) {
  return static_cast<std::int32_t>(std::upper_bound(begin.begin(), begin.end(), unit) -
                                   begin.begin() - 1);
}

void check(bool right, const char* what) {
  if (!right) throw std::logic_error(std::string("attention: ") + what);
}

}  // namespace

void attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
               const key_set& keys, float scale, const tensor_view& out,
               const tensor_view& key_mass) {
  check(q.rank == 3 && cache.keys.rank == 4, "q has rank 3 and the cache rank 4");
  const std::int64_t heads = q.shape[1], dim = q.shape[2], kv_heads = cache.keys.shape[2];
  check(kv_heads > 0 && heads % kv_heads == 0, "heads must be a multiple of the KV heads");
  check(cache.keys.shape[1] == kv_page_size && cache.keys.shape[3] == dim, "cache of other shape");
  check(q.rows() >= rows.rows && out.rows() >= rows.rows, "fewer rows than the row set has");
  if (rows.rows == 0) return;

  const bool want_mass = key_mass.data != nullptr;
  check(keys.tiles.keep == nullptr || (keys.key_begin == nullptr && !want_mass),
        "a block mask goes with neither a key list nor key_mass");
  thread_local std::vector<float> statistics;
  thread_local std::vector<std::int64_t> task_begin, block_begin, mass_begin, row_tile_begin;
  thread_local std::vector<row_tile> row_tiles;
  const auto vectors = static_cast<std::size_t>(rows.rows * heads);
  if (want_mass && statistics.size() < 2 * vectors) statistics.resize(2 * vectors);
  const job j{rows,
              q,
              cache,
              keys,
              out,
              scale,
              heads,
              kv_heads,
              heads / kv_heads,
              dim,
              active_attention_kernels(),
              want_mass ? statistics.data() : nullptr,
              want_mass ? statistics.data() + vectors : nullptr};

  const auto sequences = static_cast<std::size_t>(rows.sequences);
  task_begin.assign(sequences + 1, 0);
  block_begin.assign(sequences + 1, 0);
  mass_begin.assign(sequences + 1, 0);
  row_tile_begin.assign(sequences + 1, 0);
  row_tiles.clear();
  double flops = 0;
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const std::int64_t count = key_count(keys, s);
    if (masked(keys, s)) add_row_tiles(j, s, row_tiles);
    row_tile_begin[i + 1] = static_cast<std::int64_t>(row_tiles.size());
    task_begin[i + 1] =
        task_begin[i] + (masked(keys, s) ? (row_tile_begin[i + 1] - row_tile_begin[i]) * heads
                                         : tiles_of(j, s) * kv_heads);
    block_begin[i + 1] = block_begin[i] + (count + kv_page_size - 1) / kv_page_size;
    mass_begin[i + 1] = mass_begin[i] + count;
    if (keys.key_begin != nullptr) mass_begin[i] = keys.key_begin[s];
    flops += 4.0 * static_cast<double>(rows.row_begin[s + 1] - rows.row_begin[s]) *
             static_cast<double>(count * dim * heads);
  }
  // Below about 20 microseconds of work the calling thread does it all.
  const int threads =
      omp_in_parallel() != 0 || flops < 2e6 || !team_allowed() ? 1 : omp_get_max_threads();
  const auto& tasks = task_begin;  // workers must see the caller's vectors, not their own
  const auto& blocks = block_begin;
  const auto& masses = mass_begin;
  const auto& masked_begin = row_tile_begin;
  const auto& masked_rows = row_tiles;
  watched_region watch;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t unit = 0; unit < tasks.back(); ++unit) {
      const watched_part part(watch);
      const std::int32_t s = sequence_of(tasks, unit);
      const std::int64_t local = unit - tasks[static_cast<std::size_t>(s)];
      thread_local std::vector<key_run> runs;
      attention_tile t =
          masked(keys, s)
              ? make_masked_tile(j, s, local % heads,
                                 masked_rows[static_cast<std::size_t>(
                                     masked_begin[static_cast<std::size_t>(s)] + local / heads)],
                                 runs)
              : make_tile(j, s, local % kv_heads, local / kv_heads);
      t.scratch = tile_scratch(dim);
      j.kernels.run(t);
    }
    if (want_mass) {
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t unit = 0; unit < blocks.back(); ++unit) {
        const std::int32_t s = sequence_of(blocks, unit);
        const auto i = static_cast<std::size_t>(s);
        add_mass(j, s, static_cast<std::int32_t>(unit - blocks[i]) * kv_page_size,
                 key_mass.as<float>() + masses[i]);
      }
    }
  }
}

}  // namespace unmask::cpu
