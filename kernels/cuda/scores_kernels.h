// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the sparse and evicting methods compute to decide which keys matter. Sums are float64 as in
// the reference, in an order that depends on the sequence alone, so a score never depends on the
// batch. They differ from the reference's sums in the order of addition at most, far below the
// float32 that is stored.
#pragma once

#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/groups.h"

namespace unmask::cuda::UNMASK_TARGET {

struct key_scores_params {
  const float* q;  // [S, heads, dim]
  std::int64_t q_stride;
  std::int32_t heads, dim, group;  // heads of one kv head
  cached_keys keys;
  const std::int32_t* kv_length;
  const std::int32_t* key_begin;
  const std::int32_t* key_slot;
  float* score;
};

// The mean over heads of q_h . k_{h / group} is one dot product of the key row with the sums of
// each group's queries. Grid: sequences x pieces; a warp for each key, lanes along its row.
UNMASK_KERNEL void key_scores_kernel(key_scores_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const auto query = shared.take<double>(p.keys.width);
  const int s = static_cast<int>(block_index());
  const bool listed = p.key_begin != nullptr;
  const int first = listed ? p.key_begin[s] : entries_before(group, p.kv_length, s);
  const int count = listed ? p.key_begin[s + 1] - first : p.kv_length[s];
  for (int i = group.rank(); i < p.keys.width; i += group.size()) {
    const float* q = p.q + s * p.q_stride + i / p.dim * p.group * p.dim + i % p.dim;
    double sum = 0;
    for (int h = 0; h < p.group; ++h) sum += static_cast<double>(q[h * p.dim]);
    query[i] = sum;
  }
  group.sync();
  const int warps = group.size() / warp_size;
  for (int j = static_cast<int>(block_index_y()) * warps + warp_index(); j < count;
       j += static_cast<int>(grid_size_y()) * warps) {
    const std::int64_t key = key_at(p.keys, s, listed ? p.key_slot[first + j] : j);
    double sum = 0;
    for (int d = lane_index(); d < p.keys.width; d += warp_size) {
      sum += product(query[d], key_value(p.keys, key + d));
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) p.score[first + j] = static_cast<float>(sum / p.heads);
  }
}

// ---- importance ---------------------------------------------------------------------------------

constexpr int importance_warps = 4;
constexpr int importance_row = 256;  // masked rows of a sequence whose scores stay in shared memory

struct importance_params {
  std::int32_t heads, dim, group;
  const std::int32_t* begin;
  const std::int32_t* index;
  const float* q;
  std::int64_t q_stride;
  const float* k;
  std::int64_t k_stride;
  float scale;
  double* part;  // [entries, heads] each head's share
  float* out;
};

UNMASK_DEVICE double score_of(const importance_params& p, const float* query, int h, int row) {
  const float* key = p.k + row * p.k_stride + h / p.group * p.dim;
  return product(dot_product(query, key, p.dim), static_cast<double>(p.scale));
}

UNMASK_DEVICE double larger(double a, double b) {
  return a > b ? a : b;
}

// Grid: sequences x heads. t_ij = max of s_ij and its neighbours in the masked list; part[j] = sum
// over i of softmax_j(t_i). A warp for each query row, lanes over keys; each warp sums its rows in
// order, then the warps are added in order.
UNMASK_KERNEL void importance_kernel(importance_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const auto scores = shared.take<double>(importance_warps * importance_row);
  const auto sums = shared.take<double>(importance_warps * importance_row);
  const int s = static_cast<int>(block_index()), h = static_cast<int>(block_index_y());
  const int first = p.begin[s], n = p.begin[s + 1] - first;
  const std::int32_t* row = p.index + first;
  double* part = p.part + static_cast<std::int64_t>(first) * p.heads + h;
  const auto query_of = [&](int i) { return p.q + row[i] * p.q_stride + h * p.dim; };

  if (n <= importance_row) {
    const int base = warp_index() * importance_row;
    for (int j = lane_index(); j < n; j += warp_size) sums[base + j] = 0;
    for (int i = warp_index(); i < n; i += importance_warps) {
      const float* query = query_of(i);
      double largest = -HUGE_VAL;
      for (int j = lane_index(); j < n; j += warp_size) {
        const double x = score_of(p, query, h, row[j]);
        scores[base + j] = x;
        largest = larger(largest, x);
      }
      largest = warp_max(largest);
      sync_warp();
      // Computed twice: storing it would overwrite a score that a neighbouring lane still reads.
      const auto weight = [&](int j) {
        const double before = scores[base + (j > 0 ? j - 1 : 0)];
        const double after = scores[base + (j + 1 < n ? j + 1 : n - 1)];
        return exp(larger(larger(before, scores[base + j]), after) - largest);
      };
      double total = 0;
      for (int j = lane_index(); j < n; j += warp_size) total += weight(j);
      total = warp_sum(total);
      for (int j = lane_index(); j < n; j += warp_size) sums[base + j] += weight(j) / total;
      sync_warp();  // the next row overwrites the scores
    }
    sync_block();
    for (int j = group.rank(); j < n; j += group.size()) {
      double sum = 0;
      for (int w = 0; w < importance_warps; ++w) sum += sums[w * importance_row + j];
      part[static_cast<std::int64_t>(j) * p.heads] = sum;
    }
    return;
  }
  // Longer lists: the block takes one query row after the other and recomputes the scores.
  for (int j = group.rank(); j < n; j += group.size()) {
    part[static_cast<std::int64_t>(j) * p.heads] = 0;
  }
  for (int i = 0; i < n; ++i) {
    const float* query = query_of(i);
    const auto pooled = [&](int j) {
      const double before = score_of(p, query, h, row[j > 0 ? j - 1 : 0]);
      const double after = score_of(p, query, h, row[j + 1 < n ? j + 1 : n - 1]);
      return larger(larger(before, score_of(p, query, h, row[j])), after);
    };
    double largest = -HUGE_VAL;
    for (int j = group.rank(); j < n; j += group.size()) {
      largest = larger(largest, score_of(p, query, h, row[j]));
    }
    largest = group_max(group, largest);
    double total = 0;
    for (int j = group.rank(); j < n; j += group.size()) total += exp(pooled(j) - largest);
    total = group_sum(group, total);
    for (int j = group.rank(); j < n; j += group.size()) {
      part[static_cast<std::int64_t>(j) * p.heads] += exp(pooled(j) - largest) / total;
    }
  }
}

// out[j] = the heads' shares, summed in their order. Grid: sequences x pieces.
UNMASK_KERNEL void importance_sum_kernel(importance_params p) {
  const int s = static_cast<int>(block_index());
  const int last = p.begin[s + 1];
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int j = p.begin[s] + static_cast<int>(block_index_y() * block_size() + thread_index());
       j < last; j += step) {
    double sum = 0;
    for (int h = 0; h < p.heads; ++h) sum += p.part[static_cast<std::int64_t>(j) * p.heads + h];
    p.out[j] = static_cast<float>(sum);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
