// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's attention patterns: how much softmax mass each tile holds and which tiles are kept.
#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/scratch.h"

namespace unmask::cpu {

namespace {

// Pages of keys [first, last), the first and the last run cut short.
void page_runs(std::int32_t first, std::int32_t last, std::vector<key_run>& runs) {
  runs.clear();
  while (first < last) {
    const std::int32_t end = std::min(last, (first / kv_page_size + 1) * kv_page_size);
    runs.push_back({first, end - first});
    first = end;
  }
}

}  // namespace

// One pass over the keys for a query block: sums of exponentials by tile, weighted when the softmax
// statistics of the rows are known. A query block of a head is one thread's, rows and keys in
// ascending order.
void backend::block_mass(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                         const std::int32_t* kv_length, const std::int32_t* first_slot,
                         std::int32_t size, float scale, const tensor_view& out) const {
  const attention_kernels& kernels = active_attention_kernels();
  const std::int64_t heads = q.shape[1], dim = q.shape[2], blocks = out.shape[3];
  const std::int64_t kv_heads = cache.keys.shape[2], group = heads / kv_heads;
  for (std::int32_t s = 0; s < rows.sequences; ++s) {
    const std::int32_t length = kv_length[s], first_key = first_slot[s];
    const std::int32_t used = (length + size - 1) / size;
    const std::int32_t row_first = rows.row_begin[s], row_last = rows.row_begin[s + 1];
#pragma omp parallel for schedule(dynamic, 1) if (used * heads > 1)
    for (std::int64_t unit = 0; unit < used * heads; ++unit) {
      thread_local scratch tile_memory, mass_memory, segment_memory;
      thread_local std::vector<key_run> runs;
      const std::int64_t head = unit % heads, i = unit / heads;
      double* mass = mass_memory.get<double>(std::int64_t{used});
      std::fill(mass, mass + used, 0.0);
      page_runs(first_key, length, runs);
      float* segments = segment_memory.get<float>(segment_scratch(length, size));
      attention_tile t;
      t.dim = dim;
      t.scale = scale;
      t.low_limit = t.high_limit = std::numeric_limits<std::int32_t>::max();
      t.keys = cache.keys.as<float>() + head / group * dim;
      t.stride = kv_heads * dim;
      t.page_table = cache.page_table + std::int64_t{s} * cache.table_stride;
      t.count = length;
      t.runs = runs.data();
      t.run_count = static_cast<std::int32_t>(runs.size());
      t.scratch = tile_memory.get<float>(attention_scratch(dim));
      const std::int32_t* position = rows.position;
      const auto at = [&](std::int64_t p) {
        return static_cast<std::int32_t>(
            std::lower_bound(position + row_first, position + row_last, p) - position);
      };
      const std::int32_t last = at((i + 1) * size);
      for (std::int32_t row = at(i * size); row < last; row += t.lanes) {
        t.lanes = std::min(kernels.lanes, last - row);
        for (int lane = 0; lane < t.lanes; ++lane) {
          t.query[lane] = q.row<float>(row + lane) + head * dim;
          t.limit[lane] = t.low_limit;
        }
        kernels.block_mass(t, size, segments, mass);
      }
      float* to = out.row<float>(s) + (head * blocks + i) * blocks;
      for (std::int32_t j = first_key / size; j < used; ++j) {
        to[j] = static_cast<float>(mass[j] / (double{1} * size * size));
      }
    }
  }
}

void backend::keep_top_blocks(const tensor_view& mass, const std::int32_t* used,
                              const std::int32_t* first, const std::int32_t* limit,
                              const std::int32_t* count, const tensor_view& keep) const {
  const std::int64_t heads = mass.shape[1], blocks = mass.shape[3];
  for (std::int32_t s = 0; s < mass.rows(); ++s) {
    const std::int32_t m = std::max(0, used[s] - first[s]), n = std::min(count[s], m);
#pragma omp parallel for schedule(static) if (heads * used[s] * m > parallel_elements)
    for (std::int64_t unit = 0; unit < heads * used[s]; ++unit) {
      thread_local scratch memory;
      const std::int64_t line = (unit / used[s] * blocks + unit % used[s]) * blocks;
      const float* score = mass.row<float>(s) + line;
      std::uint8_t* flag = keep.row<std::uint8_t>(s) + line;
      std::uint64_t* key = memory.get<std::uint64_t>(std::int64_t{m});
      for (std::int32_t j = 0; j < m; ++j) {
        key[j] = rank_key(score[first[s] + j], static_cast<std::uint32_t>(first[s] + j));
      }
      if (n < m) std::nth_element(key, key + n, key + m);
      if (limit[s] > first[s]) std::fill(flag + first[s], flag + limit[s], std::uint8_t{0});
      for (std::int32_t j = 0; j < n; ++j) {
        const auto block = static_cast<std::int32_t>(static_cast<std::uint32_t>(key[j]));
        if (block < limit[s]) flag[block] = 1;
      }
    }
  }
}

void backend::block_mask_keys(const tensor_view& keep, const std::uint8_t* applies,
                              std::int32_t size, const std::int32_t* kv_length,
                              const tensor_view& out) const {
  const std::int64_t heads = keep.shape[1], blocks = keep.shape[3];
  for (std::int32_t s = 0; s < keep.rows(); ++s) {
    if (applies[s] == 0) continue;
    const std::int32_t used = (kv_length[s] + size - 1) / size;
    const std::int64_t last_size = kv_length[s] - std::int64_t{used - 1} * size;
    for (std::int32_t i = 0; i < used; ++i) {
      std::int64_t keys = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        const std::uint8_t* flag = keep.row<std::uint8_t>(s) + (h * blocks + i) * blocks;
        for (std::int32_t j = 0; j + 1 < used; ++j) keys += std::int64_t{flag[j]} * size;
        keys += flag[used - 1] * last_size;
      }
      out.row<float>(s)[i] =
          static_cast<float>(static_cast<double>(keys) / static_cast<double>(heads));
    }
  }
}

}  // namespace unmask::cpu
