// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/crowd.h"
#include "kernels/cpu/scratch.h"

namespace unmask::cpu {

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

// Rows that read one set of keys: those of a sequence, or the single rows of several views
// (make_strips), of which not every one sees every key.
struct strip {
  std::int32_t sequence = 0;  // of whose pages the keys are; the first of the views
  std::int32_t first = 0, rows = 0;
  const std::int32_t* list = nullptr;   // as in attention_tile
  const std::uint32_t* seen = nullptr;  // [count]; null: all see all
  std::int32_t count = 0;
};

strip strip_of(const job& j, std::int32_t s) {
  return {s,
          j.rows.row_begin[s],
          j.rows.row_begin[s + 1] - j.rows.row_begin[s],
          j.keys.key_begin == nullptr ? nullptr : j.keys.key_slot + j.keys.key_begin[s],
          nullptr,
          key_count(j.keys, s)};
}

std::int64_t tiles_of(const job& j, const strip& rows) {
  return (rows.rows * j.group + j.kernels.lanes - 1) / j.kernels.lanes;
}

// Query vectors [tile * lanes, ...) of KV head `head` in a strip. Vector i belongs to row
// i / group and query head head * group + i % group.
attention_tile make_tile(const job& j, const strip& rows, std::int64_t head, std::int64_t tile) {
  attention_tile t;
  const std::int64_t vectors = rows.rows * j.group;
  const std::int64_t first = tile * j.kernels.lanes;
  t.dim = j.dim;
  t.lanes = static_cast<int>(std::min<std::int64_t>(j.kernels.lanes, vectors - first));
  t.low_limit = std::numeric_limits<std::int32_t>::max();
  t.high_limit = 0;
  for (int i = 0; i < t.lanes; ++i) {
    const std::int64_t row = rows.first + (first + i) / j.group;
    const std::int64_t column = (head * j.group + (first + i) % j.group) * j.dim;
    t.view[i] = static_cast<std::uint8_t>((first + i) / j.group);
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
  t.page_table = j.cache.page_table + std::int64_t{rows.sequence} * j.cache.table_stride;
  t.list = rows.list;
  t.seen = rows.seen;
  t.count = rows.count;
  if (j.peak != nullptr) {
    const std::int64_t at = rows.first * j.heads + head * vectors + first;
    t.peak = j.peak + at;
    t.inverse_sum = j.inverse_sum + at;
  }
  return t;
}

// Keys of views that are read together.
struct bundled_keys {
  std::vector<std::int32_t> slot;
  std::vector<std::uint32_t> seen, by_slot;

  // The union of the lists of views [first, last), ascending, and which of them see each key. False
  // where a view lists a slot twice, or would skip more than a quarter of what is read.
  bool unite(const job& j, std::int32_t first, std::int32_t last);
};

bool bundled_keys::unite(const job& j, std::int32_t first, std::int32_t last) {
  std::fill(by_slot.begin(), by_slot.end(), 0U);
  for (std::int32_t v = first; v < last; ++v) {
    const std::uint32_t bit = 1U << (v - first);
    for (std::int32_t i = j.keys.key_begin[v]; i < j.keys.key_begin[v + 1]; ++i) {
      const auto at = static_cast<std::size_t>(j.keys.key_slot[i]);
      if (at >= by_slot.size()) by_slot.resize(at + 1, 0U);
      if ((by_slot[at] & bit) != 0) return false;
      by_slot[at] |= bit;
    }
  }
  const std::int32_t views = last - first;
  const std::uint32_t all = ~std::uint32_t{0} >> (32 - views);
  slot.clear();
  seen.clear();
  for (std::size_t at = 0; at < by_slot.size(); ++at) {
    if (by_slot[at] == 0) continue;
    slot.push_back(static_cast<std::int32_t>(at));
    seen.push_back(by_slot[at] == all ? ~std::uint32_t{0} : by_slot[at]);
  }
  const std::int64_t listed = j.keys.key_begin[last] - j.keys.key_begin[first];
  return listed * 4 >= static_cast<std::int64_t>(slot.size()) * views * 3;
}

bool same_pages(const paged_kv& cache, std::int32_t a, std::int32_t b) {
  const std::int32_t* table = cache.page_table;
  const std::int64_t stride = cache.table_stride;
  return std::equal(table + a * stride, table + (a + 1) * stride, table + b * stride);
}

bool masked(const key_set& keys, std::int32_t s) {
  return keys.tiles.keep != nullptr && keys.tiles.applies[s] != 0;
}

// How many views from s on have a single row and the pages of s, at most one bit each; 1 for any other
// sequence. Views of one sequence lie side by side and no two sequences share pages, so what is bundled
// does not depend on the batch.
std::int32_t single_rows(const job& j, std::int32_t s) {
  constexpr std::int32_t most = 32;
  const auto single = [&](std::int32_t v) {
    return j.rows.row_begin[v + 1] - j.rows.row_begin[v] == 1;
  };
  if (j.keys.key_begin == nullptr || j.peak != nullptr || !single(s)) return 1;
  std::int32_t views = 1;
  while (views < most && s + views < j.rows.sequences && single(s + views) &&
         same_pages(j.cache, s, s + views)) {
    ++views;
  }
  return views;
}

// All sequences, single rows of views bundled where they read nearly the same keys: one row alone would
// fill one lane of a tile. The bundles' keys live as long as `bundles`.
void make_strips(const job& j, std::deque<bundled_keys>& bundles, std::vector<strip>& strips) {
  strips.clear();
  std::size_t bundled = 0;
  for (std::int32_t s = 0; s < j.rows.sequences; ++s) {
    strip next = strip_of(j, s);
    const std::int32_t views = single_rows(j, s);
    if (views > 1) {
      if (bundles.size() == bundled) bundles.emplace_back();
      bundled_keys& keys = bundles[bundled];
      if (keys.unite(j, s, s + views)) {
        ++bundled;
        next = {s,
                next.first,
                views,
                keys.slot.data(),
                keys.seen.data(),
                static_cast<std::int32_t>(keys.slot.size())};
        s += views - 1;
      }
    }
    strips.push_back(next);
  }
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
void add_mass(const job& j, const strip& rows, std::int32_t first, float* mass) {
  float* scratch = tile_scratch(j.dim);
  for (std::int64_t head = 0; head < j.kv_heads; ++head) {
    for (std::int64_t tile = 0; tile < tiles_of(j, rows); ++tile) {
      attention_tile t = make_tile(j, rows, head, tile);
      t.scratch = scratch;
      j.kernels.mass(t, page_run(t, first), mass + first);
    }
  }
}

// The strip of a unit of work, given where each strip's units begin.
std::size_t strip_at(const std::vector<std::int64_t>& begin, std::int64_t unit) {
  return static_cast<std::size_t>(std::upper_bound(begin.begin(), begin.end(), unit) -
                                  begin.begin() - 1);
}

void check(bool right, const char* what) {
  if (!right) throw std::logic_error(std::string("attention: ") + what);
}

}  // namespace

void attention(const row_set& rows, const tensor_view& q, const paged_kv& cache,
               const key_set& keys, float scale, const tensor_view& out,
               const tensor_view& key_mass, const attention_kernels& kernels) {
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
  thread_local std::deque<bundled_keys> bundles;
  thread_local std::vector<strip> strips;
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
              kernels,
              want_mass ? statistics.data() : nullptr,
              want_mass ? statistics.data() + vectors : nullptr};

  make_strips(j, bundles, strips);
  task_begin.assign(strips.size() + 1, 0);
  block_begin.assign(strips.size() + 1, 0);
  mass_begin.assign(strips.size() + 1, 0);
  row_tile_begin.assign(strips.size() + 1, 0);
  row_tiles.clear();
  double flops = 0;
  for (std::size_t i = 0; i < strips.size(); ++i) {
    const strip& one = strips[i];
    const bool by_tiles = masked(keys, one.sequence);
    if (by_tiles) add_row_tiles(j, one.sequence, row_tiles);
    row_tile_begin[i + 1] = static_cast<std::int64_t>(row_tiles.size());
    task_begin[i + 1] =
        task_begin[i] + (by_tiles ? (row_tile_begin[i + 1] - row_tile_begin[i]) * heads
                                  : tiles_of(j, one) * kv_heads);
    block_begin[i + 1] = block_begin[i] + (one.count + kv_page_size - 1) / kv_page_size;
    mass_begin[i + 1] = mass_begin[i] + one.count;
    if (keys.key_begin != nullptr) mass_begin[i] = keys.key_begin[one.sequence];
    flops += 4.0 * one.rows * static_cast<double>(one.count * dim * heads);
  }
  // Below about 20 microseconds of work the calling thread does it all.
  const int threads =
      omp_in_parallel() != 0 || flops < 2e6 || !team_allowed() ? 1 : omp_get_max_threads();
  const auto& tasks = task_begin;  // workers must see the caller's vectors, not their own
  const auto& blocks = block_begin;
  const auto& masses = mass_begin;
  const auto& masked_begin = row_tile_begin;
  const auto& masked_rows = row_tiles;
  const auto& all = strips;
  watched_region watch;
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
#pragma omp for schedule(dynamic, 1)
    for (std::int64_t unit = 0; unit < tasks.back(); ++unit) {
      const watched_part part(watch);
      const std::size_t i = strip_at(tasks, unit);
      const std::int64_t local = unit - tasks[i];
      thread_local std::vector<key_run> runs;
      attention_tile t =
          masked(keys, all[i].sequence)
              ? make_masked_tile(
                    j, all[i].sequence, local % heads,
                    masked_rows[static_cast<std::size_t>(masked_begin[i] + local / heads)], runs)
              : make_tile(j, all[i], local % kv_heads, local / kv_heads);
      t.scratch = tile_scratch(dim);
      j.kernels.run(t);
    }
    if (want_mass) {
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t unit = 0; unit < blocks.back(); ++unit) {
        const std::size_t i = strip_at(blocks, unit);
        add_mass(j, all[i], static_cast<std::int32_t>(unit - blocks[i]) * kv_page_size,
                 key_mass.as<float>() + masses[i]);
      }
    }
  }
}

}  // namespace unmask::cpu
