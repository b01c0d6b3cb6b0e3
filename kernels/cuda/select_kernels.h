// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which scored entries are chosen, for the sparse and evicting methods. No sorting network and no
// scratch memory: membership by the bitwise cut of groups.h, order by counting how many entries
// come before.
#pragma once

#include "kernels/cuda/groups.h"
#include "kernels/ops.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int select_threads = 256;

struct top_indices_params {
  const std::int32_t* begin;
  const float* score;
  const std::int32_t* out_begin;
  std::int32_t* out;
  std::int32_t* fault;  // raised where a segment is shorter than what is wanted of it
};

// Grid: segments x pieces. First every block finds the key of the last one wanted, so that tiles of
// lesser entries are skipped; then each entry at or above it counts, from tiles of keys in shared
// memory, the entries that come before it. Its count is its place.
UNMASK_KERNEL void top_indices_kernel(top_indices_params p) {
  shared_allocator shared;
  const block_group group{shared.take<std::uint64_t>(group_words)};
  const auto tile = shared.take<std::uint32_t>(select_threads);
  const int s = static_cast<int>(block_index());
  const int first = p.begin[s], n = p.begin[s + 1] - first;
  const int wanted = p.out_begin[s + 1] - p.out_begin[s];
  const int threads = select_threads;
  if (wanted > n) {
    if (group.rank() == 0) *p.fault = 1;
    return;
  }
  const int step = static_cast<int>(grid_size_y()) * threads;
  if (wanted <= 0 || static_cast<int>(block_index_y()) * threads >= n) return;
  const score_keys key{p.score + first};
  const std::uint32_t least = wanted < n ? top_cut(group, n, wanted, key).key : 0;
  for (int base = static_cast<int>(block_index_y()) * threads; base < n; base += step) {
    const int i = base + group.rank();
    const std::uint32_t mine = i < n ? key(i) : 0;
    const bool chosen = i < n && mine >= least;
    int any = 0;
    (void)group.before(chosen, any);
    if (any == 0) continue;
    int place = 0;
    for (int from = 0; from < n; from += threads) {
      tile[group.rank()] = from + group.rank() < n ? key(from + group.rank()) : 0;
      group.sync();
      const int here = n - from < threads ? n - from : threads;
      if (!chosen) {
        // Nothing to count, but the tile is everybody's work.
      } else if (from < base) {
        for (int j = 0; j < here; ++j) place += tile[j] >= mine ? 1 : 0;
      } else if (from > base) {
        for (int j = 0; j < here; ++j) place += tile[j] > mine ? 1 : 0;
      } else {
        for (int j = 0; j < here; ++j) {
          place += tile[j] > mine || (tile[j] == mine && j < group.rank()) ? 1 : 0;
        }
      }
      group.sync();
    }
    if (chosen && place < wanted) p.out[p.out_begin[s] + place] = i;
  }
}

struct mark_top_params {
  const std::int32_t* row_begin;
  const std::int32_t* position;
  const float* score;
  const std::int32_t* count;
  std::uint8_t* flags;
  std::int64_t stride;
};

// One block for each sequence.
UNMASK_KERNEL void mark_top_kernel(mark_top_params p) {
  shared_allocator shared;
  const auto room = shared.take<std::uint64_t>(group_words);
  const int s = static_cast<int>(block_index());
  const int first = p.row_begin[s], n = p.row_begin[s + 1] - first;
  const int wanted = p.count[s] < n ? p.count[s] : n;
  std::uint8_t* flags = p.flags + s * p.stride;
  with_keys(p.score + first, n, room, [&](const auto& group, const auto& key) {
    const cut c = top_cut(group, n, wanted, key);
    for_each_taken(group, n, key, c, [&](int i, bool taken) {
      flags[p.position[first + i]] = taken ? 1 : 0;
    });
  });
}

struct keep_top_blocks_params {
  const float* mass;  // [S, heads, blocks, blocks]
  std::int64_t mass_stride;
  std::int32_t heads, blocks;
  const std::int32_t* used;
  const std::int32_t* first;
  const std::int32_t* limit;
  const std::int32_t* count;
  std::uint8_t* keep;
  std::int64_t keep_stride;
};

// Grid: sequences x (heads * query blocks / warps); a warp for each row of tiles.
UNMASK_KERNEL void keep_top_blocks_kernel(keep_top_blocks_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  const std::int64_t line =
      static_cast<std::int64_t>(block_index_y()) * (block_size() / warp_size) + warp_index();
  const int i = static_cast<int>(line % p.blocks);
  if (i >= p.used[s] || line >= static_cast<std::int64_t>(p.heads) * p.blocks) return;
  const int first = p.first[s], n = p.used[s] - first;
  const float* mass = p.mass + s * p.mass_stride + line * p.blocks + first;
  std::uint8_t* keep = p.keep + s * p.keep_stride + line * p.blocks + first;
  const int limit = p.limit[s] - first;
  const int wanted = p.count[s] < n ? p.count[s] : n;
  const score_keys key{mass};
  const cut c = top_cut(group, n, wanted, key);
  for_each_taken(group, n, key, c, [&](int j, bool taken) {
    if (j < limit) keep[j] = taken ? 1 : 0;
  });
}

struct block_mask_keys_params {
  const std::uint8_t* keep;
  std::int64_t keep_stride;
  std::int32_t heads, blocks;
  const std::uint8_t* applies;
  std::int32_t size;
  const std::int32_t* kv_length;
  float* out;
  std::int64_t out_stride;
};

// Grid: sequences x (query blocks / warps); a warp for each query block.
UNMASK_KERNEL void block_mask_keys_kernel(block_mask_keys_params p) {
  const int s = static_cast<int>(block_index());
  const int i = static_cast<int>(block_index_y() * (block_size() / warp_size)) + warp_index();
  const int length = p.kv_length[s];
  const int used = (length + p.size - 1) / p.size;
  if (p.applies[s] == 0 || i >= used) return;
  std::int64_t keys = 0;
  for (int h = 0; h < p.heads; ++h) {
    const std::uint8_t* keep = p.keep + s * p.keep_stride +
                               (static_cast<std::int64_t>(h) * p.blocks + i) * p.blocks;
    for (int j = lane_index(); j < used; j += warp_size) {
      const int left = length - j * p.size;
      if (keep[j] != 0) keys += left < p.size ? left : p.size;
    }
  }
  keys = warp_sum(keys);
  if (lane_index() == 0) {
    p.out[s * p.out_stride + i] =
        static_cast<float>(static_cast<double>(keys) / static_cast<double>(p.heads));
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
