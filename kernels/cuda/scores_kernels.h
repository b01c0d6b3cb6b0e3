// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the sparse and evicting methods compute to decide which keys matter. Sums are float64 as in
// the reference, in an order that depends on the sequence alone, so a score never depends on the
// batch. They differ from the reference's sums in the order of addition at most, far below the
// float32 that is stored.
#pragma once

#include <type_traits>

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/groups.h"
#include "kernels/host_device.h"

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
constexpr int importance_square = 48;  // and of which all scores do
constexpr int importance_tile = 4;     // queries and keys whose scores four lanes sum
// Entries of a row of n scores: tiles that a warp stores side by side lie in different banks.
UNMASK_HOST_DEVICE constexpr int importance_pitch(int n) {
  return (n + 1) / 4 * 4 + 2;
}
constexpr int importance_scores = importance_square * importance_pitch(importance_square);
static_assert(importance_scores >= importance_warps * importance_row);
constexpr std::size_t importance_shared =
    sizeof(double) * (importance_scores + importance_warps * importance_row);

struct importance_params {
  std::int32_t heads, dim, group;
  const std::int32_t* begin;
  const std::int32_t* index;
  const void* q;
  std::int64_t q_stride;
  const void* k;
  std::int64_t k_stride;
  float scale;
  bool tiles;    // in_groups(2): q and k, and whole 8 elements a head
  double* part;  // [entries, heads] each head's share
  float* out;
};

// Element: float, or std::uint16_t for bfloat16.
template <class element>
UNMASK_DEVICE double score_of(const importance_params& p, const element* query, int h, int row) {
  const element* key = static_cast<const element*>(p.k) + row * p.k_stride + h / p.group * p.dim;
  return product(dot_product(query, key, p.dim), static_cast<double>(p.scale));
}

// score[i m + j] of all pairs, m the next odd number from n on: tiles fall into different banks. Four lanes share a tile of 4 x 4 pairs and take 2 of 8 elements each:
// an element that is read and widened serves four sums, because the GPU widens 16 numbers in the
// time of 64 products.
template <class element, class F>
UNMASK_DEVICE void importance_tiles(const importance_params& p, const block_group& group,
                                    const F& query_of, int h, const std::int32_t* row, int n,
                                    const shared_array<double>& score) {
  constexpr int tile = importance_tile;
  constexpr dtype type = sizeof(element) == 4 ? dtype::f32 : dtype::bf16;
  const int side = (n + tile - 1) / tile, part = lane_index() % 4;
  for (int at = group.rank() / 4; at < (side * side + 7) / 8 * 8; at += group.size() / 4) {
    const int i = at / side * tile, j = at % side * tile;
    const element *query[tile], *key[tile];
#pragma unroll
    for (int e = 0; e < tile; ++e) {
      query[e] = query_of(i + e < n ? i + e : n - 1);
      key[e] = static_cast<const element*>(p.k) + row[j + e < n ? j + e : n - 1] * p.k_stride +
               h / p.group * p.dim;
    }
    double sum[tile][tile] = {};
    for (int d = 2 * part; d < p.dim && i < n; d += 8) {
      float_pair q[tile], k[tile];
#pragma unroll
      for (int e = 0; e < tile; ++e) {
        q[e] = load_pair(query[e], type, d);
        k[e] = load_pair(key[e], type, d);
      }
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        double wide[tile];
#pragma unroll
        for (int f = 0; f < tile; ++f) wide[f] = static_cast<double>(x == 0 ? k[f].a : k[f].b);
#pragma unroll
        for (int e = 0; e < tile; ++e) {
          const auto of_query = static_cast<double>(x == 0 ? q[e].a : q[e].b);  // exact products
#pragma unroll
          for (int f = 0; f < tile; ++f) {
            sum[e][f] = fused_multiply_add(of_query, wide[f], sum[e][f]);
          }
        }
      }
    }
#pragma unroll
    for (int e = 0; e < tile; ++e) {
      double mine = 0;
#pragma unroll
      for (int f = 0; f < tile; ++f) {
        double all = sum[e][f] + shuffle_xor(sum[e][f], 1);
        all += shuffle_xor(all, 2);
        mine = part == f ? all : mine;
      }
      if (i + e < n && j + part < n) {
        score[(i + e) * importance_pitch(n) + j + part] =
            product(mine, static_cast<double>(p.scale));
      }
    }
  }
}

UNMASK_DEVICE double larger(double a, double b) {
  return a > b ? a : b;
}

// Grid: sequences x heads. t_ij = max of s_ij and its neighbours in the masked list; part[j] = sum
// over i of softmax_j(t_i). A warp for each query row, lanes over keys; each warp sums its rows in
// order, then the warps are added in order.
template <dtype type>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(importance_warps* warp_size, 4)
    importance_kernel(importance_params p) {
  using element = std::conditional_t<type == dtype::f32, float, std::uint16_t>;
  shared_allocator shared;
  const block_group group = take_group(shared);
  const auto scores = shared.take<double>(importance_scores);
  const auto sums = shared.take<double>(importance_warps * importance_row);
  const int s = static_cast<int>(block_index()), h = static_cast<int>(block_index_y());
  const int first = p.begin[s], n = p.begin[s + 1] - first;
  const std::int32_t* row = p.index + first;
  double* part = p.part + static_cast<std::int64_t>(first) * p.heads + h;
  const auto query_of = [&](int i) {
    return static_cast<const element*>(p.q) + row[i] * p.q_stride + h * p.dim;
  };

  if (n <= importance_row) {
    const int first_sum = warp_index() * importance_row;
    for (int j = lane_index(); j < n; j += warp_size) sums[first_sum + j] = 0;
    const bool tiles = p.tiles && n <= importance_square;
    if (tiles) importance_tiles<element>(p, group, query_of, h, row, n, scores);
    sync_block();
    for (int i = warp_index(); i < n; i += importance_warps) {
      const int base = tiles ? i * importance_pitch(n) : first_sum;
      double largest = -HUGE_VAL;
      for (int j = lane_index(); j < n; j += warp_size) {
        if (!tiles) scores[base + j] = score_of(p, query_of(i), h, row[j]);
        largest = larger(largest, scores[base + j]);
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
      for (int j = lane_index(); j < n; j += warp_size) sums[first_sum + j] += weight(j) / total;
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
    const element* query = query_of(i);
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
