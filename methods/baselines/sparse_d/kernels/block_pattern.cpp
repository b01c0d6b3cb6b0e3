// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's attention patterns: how much softmax mass each tile holds and which tiles are kept.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/backend.h"
#include "methods/baselines/sparse_d/kernels/block_pattern.h"

namespace unmask {
namespace reference {
namespace {

// out_shij = size^-2 sum_{r in block i} sum_{k in block j} softmax_k(q_rh . key_kh scale), the
// softmax over [first_slot_s, kv_length_s).
void block_mass(const op::block_mass& args) {
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2], blocks = args.out.shape[3];
  const std::int64_t group = heads / args.cache.keys.shape[2];
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int32_t count = args.kv_length[s] - args.first_slot[s];
    const std::int32_t used = (args.kv_length[s] + args.size - 1) / args.size;
    for (std::int64_t h = 0; h < heads && args.kv_length[s] > 0; ++h) {
      std::vector<double> mass(static_cast<std::size_t>(used * used), 0.0);
      for (std::int32_t r = args.rows.row_begin[s]; r < args.rows.row_begin[s + 1]; ++r) {
        std::vector<double> weight(static_cast<std::size_t>(count));
        for (std::int32_t j = 0; j < count; ++j) {
          const std::int32_t slot = args.first_slot[s] + j;
          const std::int32_t page =
              args.cache.page_table[s * args.cache.table_stride + slot / kv_page_size];
          const float* key = args.cache.keys.row<float>(page) +
                             ((slot % kv_page_size) * args.cache.keys.shape[2] + h / group) * dim;
          double dot = 0;
          for (std::int64_t d = 0; d < dim; ++d)
            dot += double{args.q.row<float>(r)[h * dim + d]} * key[d];
          weight[j] = dot * args.scale;
        }
        const double largest = *std::max_element(weight.begin(), weight.end());
        double total = 0;
        for (double& w : weight) total += w = std::exp(w - largest);
        for (std::int32_t j = 0; j < count; ++j) {
          const std::int32_t key_block = (args.first_slot[s] + j) / args.size;
          mass[args.rows.position[r] / args.size * used + key_block] += weight[j] / total;
        }
      }
      for (std::int32_t i = 0; i < used; ++i) {
        for (std::int32_t j = args.first_slot[s] / args.size; j < used; ++j) {
          args.out.row<float>(s)[(h * blocks + i) * blocks + j] =
              static_cast<float>(mass[i * used + j] / (double{1} * args.size * args.size));
        }
      }
    }
  }
}

// keep_shij = whether j is among the count_s largest mass_shij of [first_s, used_s), for j <
// limit_s; lowest j first on ties.
void keep_top_blocks(const op::keep_top_blocks& args) {
  const std::int64_t heads = args.mass.shape[1], blocks = args.mass.shape[3];
  for (std::int32_t s = 0; s < args.mass.rows(); ++s) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int32_t i = 0; i < args.used[s]; ++i) {
        const float* score = args.mass.row<float>(s) + (h * blocks + i) * blocks;
        std::uint8_t* flag = args.keep.row<std::uint8_t>(s) + (h * blocks + i) * blocks;
        std::vector<std::int32_t> order(static_cast<std::size_t>(args.used[s] - args.first[s]));
        std::iota(order.begin(), order.end(), args.first[s]);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int32_t a, std::int32_t b) { return score[a] > score[b]; });
        for (std::int32_t n = 0; n < args.used[s] - args.first[s]; ++n) {
          if (order[n] < args.limit[s]) flag[order[n]] = n < args.count[s] ? 1 : 0;
        }
      }
    }
  }
}

// out_si = (1 / heads) sum_h sum_j keep_shij |block j|.
void block_mask_keys(const op::block_mask_keys& args) {
  const std::int64_t heads = args.keep.shape[1], blocks = args.keep.shape[3];
  for (std::int32_t s = 0; s < args.keep.rows(); ++s) {
    if (args.applies[s] == 0) continue;
    for (std::int32_t i = 0; i * args.size < args.kv_length[s]; ++i) {
      std::int64_t keys = 0;
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int32_t j = 0; j * args.size < args.kv_length[s]; ++j) {
          if (args.keep.row<std::uint8_t>(s)[(h * blocks + i) * blocks + j] == 0) continue;
          keys += std::min(args.size, args.kv_length[s] - j * args.size);
        }
      }
      args.out.row<float>(s)[i] =
          static_cast<float>(static_cast<double>(keys) / static_cast<double>(heads));
    }
  }
}

}  // namespace

const register_operations<block_mass, keep_top_blocks, block_mask_keys> registered(
    target::reference);

}  // namespace reference

namespace cpu {
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

// One pass over the keys for a query block: sums of exponentials by tile, weighted when the softmax
// statistics of the rows are known. A query block of a head is one thread's, rows and keys in
// ascending order.
void block_mass(const backend& cpu, const op::block_mass& args) {
  const attention_kernels& kernels = cpu.attention();
  const std::int64_t heads = args.q.shape[1], dim = args.q.shape[2], blocks = args.out.shape[3];
  const std::int64_t kv_heads = args.cache.keys.shape[2], group = heads / kv_heads;
  for (std::int32_t s = 0; s < args.rows.sequences; ++s) {
    const std::int32_t length = args.kv_length[s], first_key = args.first_slot[s];
    const std::int32_t used = (length + args.size - 1) / args.size;
    const std::int32_t row_first = args.rows.row_begin[s], row_last = args.rows.row_begin[s + 1];
#pragma omp parallel for schedule(dynamic, 1) if (used * heads > 1)
    for (std::int64_t unit = 0; unit < used * heads; ++unit) {
      thread_local scratch tile_memory, mass_memory, segment_memory;
      thread_local std::vector<key_run> runs;
      const std::int64_t head = unit % heads, i = unit / heads;
      double* mass = mass_memory.get<double>(std::int64_t{used});
      std::fill(mass, mass + used, 0.0);
      page_runs(first_key, length, runs);
      float* segments = segment_memory.get<float>(segment_scratch(length, args.size));
      attention_tile t;
      t.dim = dim;
      t.scale = args.scale;
      t.low_limit = t.high_limit = std::numeric_limits<std::int32_t>::max();
      t.keys = args.cache.keys.as<float>() + head / group * dim;
      t.stride = kv_heads * dim;
      t.page_table = args.cache.page_table + std::int64_t{s} * args.cache.table_stride;
      t.count = length;
      t.runs = runs.data();
      t.run_count = static_cast<std::int32_t>(runs.size());
      t.scratch = tile_memory.get<float>(attention_scratch(dim));
      const std::int32_t* position = args.rows.position;
      const auto at = [&](std::int64_t p) {
        return static_cast<std::int32_t>(
            std::lower_bound(position + row_first, position + row_last, p) - position);
      };
      const std::int32_t last = at((i + 1) * args.size);
      for (std::int32_t row = at(i * args.size); row < last; row += t.lanes) {
        t.lanes = std::min(kernels.lanes, last - row);
        for (int lane = 0; lane < t.lanes; ++lane) {
          t.query[lane] = args.q.row<float>(row + lane) + head * dim;
          t.limit[lane] = t.low_limit;
        }
        kernels.block_mass(t, args.size, segments, mass);
      }
      float* to = args.out.row<float>(s) + (head * blocks + i) * blocks;
      for (std::int32_t j = first_key / args.size; j < used; ++j) {
        to[j] = static_cast<float>(mass[j] / (double{1} * args.size * args.size));
      }
    }
  }
}

void keep_top_blocks(const op::keep_top_blocks& args) {
  const std::int64_t heads = args.mass.shape[1], blocks = args.mass.shape[3];
  for (std::int32_t s = 0; s < args.mass.rows(); ++s) {
    const std::int32_t m = std::max(0, args.used[s] - args.first[s]),
                       n = std::min(args.count[s], m);
#pragma omp parallel for schedule(static) if (heads * args.used[s] * m > parallel_elements)
    for (std::int64_t unit = 0; unit < heads * args.used[s]; ++unit) {
      thread_local scratch memory;
      const std::int64_t line = (unit / args.used[s] * blocks + unit % args.used[s]) * blocks;
      const float* score = args.mass.row<float>(s) + line;
      std::uint8_t* flag = args.keep.row<std::uint8_t>(s) + line;
      std::uint64_t* key = memory.get<std::uint64_t>(std::int64_t{m});
      for (std::int32_t j = 0; j < m; ++j) {
        key[j] = rank_key(score[args.first[s] + j], static_cast<std::uint32_t>(args.first[s] + j));
      }
      if (n < m) std::nth_element(key, key + n, key + m);
      if (args.limit[s] > args.first[s])
        std::fill(flag + args.first[s], flag + args.limit[s], std::uint8_t{0});
      for (std::int32_t j = 0; j < n; ++j) {
        const auto block = static_cast<std::int32_t>(static_cast<std::uint32_t>(key[j]));
        if (block < args.limit[s]) flag[block] = 1;
      }
    }
  }
}

}  // namespace

const register_operations<block_mass, keep_top_blocks> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
