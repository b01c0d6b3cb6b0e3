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
  const auto tile = shared.take<std::uint32_t>(group_threads);
  const int s = static_cast<int>(block_index());
  const int first = p.begin[s], n = p.begin[s + 1] - first;
  const int wanted = p.out_begin[s + 1] - p.out_begin[s];
  const int threads = group_threads;
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

struct pool_params {
  const std::int32_t* begin;
  const float* in;
  std::int32_t half;  // kernel / 2
  bool maximum;
  float* out;
};

// Grid: segments x pieces of a segment.
UNMASK_KERNEL void pool_kernel(pool_params p) {
  const int s = static_cast<int>(block_index());
  const int first = p.begin[s], last = p.begin[s + 1];
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int j = first + static_cast<int>(block_index_y() * block_size() + thread_index()); j < last;
       j += step) {
    const int low = j - p.half > first ? j - p.half : first;
    const int high = j + p.half < last - 1 ? j + p.half : last - 1;
    double sum = 0;
    float largest = float_bits(0xFF800000U);
    for (int i = low; i <= high; ++i) {
      const float x = p.in[i];
      sum += static_cast<double>(x);
      if (x > largest) largest = x;
    }
    p.out[j] = p.maximum ? largest : static_cast<float>(sum / (high - low + 1));
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
    for_each_taken(group, n, key, c,
                   [&](int i, bool taken) { flags[p.position[first + i]] = taken ? 1 : 0; });
  });
}

}  // namespace unmask::cuda::UNMASK_TARGET
