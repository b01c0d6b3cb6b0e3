// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which scored entries are chosen, for the sparse and evicting methods: membership by the radix
// select of groups.h, and, where the order is wanted, a bitonic sort of the chosen ones in place.
// No scratch memory.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/groups.h"

namespace unmask::cuda::UNMASK_TARGET {

struct top_indices_params {
  const std::int32_t* begin;
  const float* score;
  const std::int32_t* out_begin;
  std::int32_t* out;
  std::int32_t* fault;  // raised where a segment is shorter than what is wanted of it
};

constexpr int sort_threads = 512;
constexpr int sort_chunk = 2048;  // entries that are sorted in shared memory

// One stage of a bitonic network whose comparators all put the better entry first, so that entries
// beyond the last need not exist. Pair t of stage (width, stride): the mirror image in a run of
// `width` entries, or, after that, the entry `stride` further on.
struct sort_pair {
  int low, high;
};
UNMASK_DEVICE sort_pair mirrored(int t, int width) {
  const int half = width / 2, run = t / half, at = t % half;
  return {run * width + at, run * width + width - 1 - at};
}
UNMASK_DEVICE sort_pair strided(int t, int stride) {
  const int low = t / stride * 2 * stride + t % stride;
  return {low, low + stride};
}

UNMASK_DEVICE void order_pair(const shared_array<std::uint64_t>& entry, int n,
                              const sort_pair& pair) {
  if (pair.high >= n) return;
  const std::uint64_t a = entry[pair.low], b = entry[pair.high];
  if (a < b) {
    entry[pair.low] = b;
    entry[pair.high] = a;
  }
}
UNMASK_DEVICE void order_pair(std::int32_t* index, const float* score, int n,
                              const sort_pair& pair) {
  if (pair.high >= n) return;
  const std::int32_t a = index[pair.low], b = index[pair.high];
  if (order_value(order_key(score[a]), a) < order_value(order_key(score[b]), b)) {
    index[pair.low] = b;
    index[pair.high] = a;
  }
}

// Sorts chunks of n indices, best first, in shared memory: all stages, or those of strides below
// the chunk that end a wider stage.
UNMASK_DEVICE void sort_chunks(const block_group& group, const shared_array<std::uint64_t>& entry,
                               std::int32_t* index, const float* score, int n, bool all_stages) {
  for (int base = 0; base < n; base += sort_chunk) {
    const int here = n - base < sort_chunk ? n - base : sort_chunk;
    for (int i = group.rank(); i < here; i += group.size()) {
      const std::int32_t at = index[base + i];
      entry[i] = order_value(order_key(score[at]), at);
    }
    group.sync();
    const auto stage = [&](int width, int stride) {
      for (int t = group.rank(); t < sort_chunk / 2 && t < here; t += group.size()) {
        order_pair(entry, here, width > 0 ? mirrored(t, width) : strided(t, stride));
      }
      group.sync();
    };
    if (all_stages) {
      for (int width = 2; width < 2 * here; width *= 2) {
        stage(width, 0);
        for (int stride = width / 4; stride > 0; stride /= 2) stage(0, stride);
      }
    } else {
      for (int stride = sort_chunk / 2; stride > 0; stride /= 2) stage(0, stride);
    }
    for (int i = group.rank(); i < here; i += group.size()) index[base + i] = index_of(entry[i]);
    group.sync();
  }
}

// One block for each segment: the entries at or above the cut are listed in `out` and sorted there,
// chunk by chunk in shared memory, wider stages in place. O(n + wanted log^2 wanted).
UNMASK_KERNEL void top_indices_kernel(top_indices_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const auto entry = shared.take<std::uint64_t>(sort_chunk);
  const int s = static_cast<int>(block_index());
  const int first = p.begin[s], n = p.begin[s + 1] - first;
  const int wanted = p.out_begin[s + 1] - p.out_begin[s];
  const float* score = p.score + first;
  std::int32_t* out = p.out + p.out_begin[s];
  if (wanted > n) {
    if (group.rank() == 0) *p.fault = 1;
    return;
  }
  const score_keys key{score};
  const cut c = top_cut(group, n, wanted, key);
  int ties = 0, at = 0;
  for (int base = 0; base < n && wanted > 0; base += group.size()) {
    const int i = base + group.rank();
    const std::uint32_t mine = i < n ? key(i) : 0;
    const bool tie = i < n && mine == c.key;
    int ties_here = 0, taken_here = 0;
    const int rank = ties + group.before(tie, ties_here);
    const bool taken = i < n && (mine > c.key || (tie && rank < c.ties));
    const int place = at + group.before(taken, taken_here);
    if (taken) out[place] = i;
    ties += ties_here;
    at += taken_here;
  }
  group.sync();
  sort_chunks(group, entry, out, score, wanted, true);
  for (int width = 2 * sort_chunk; width < 2 * wanted; width *= 2) {
    const auto stage = [&](int mirror, int stride) {
      for (int t = group.rank(); t < width / 2 * ((wanted + width - 1) / width);
           t += group.size()) {
        order_pair(out, score, wanted, mirror > 0 ? mirrored(t, mirror) : strided(t, stride));
      }
      group.sync();
    };
    stage(width, 0);
    for (int stride = width / 4; stride >= sort_chunk; stride /= 2) stage(0, stride);
    sort_chunks(group, entry, out, score, wanted, false);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
