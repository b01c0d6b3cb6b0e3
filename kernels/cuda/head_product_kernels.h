// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The head's product whose logits stay in registers: each tile of logits [256 candidates, 192 tokens] is folded by the
// warps that multiplied it, as head_fold_kernels.h folds a slice of a chunk. What is left of a candidate and a tile
// are 16 bytes, which head_tiles_merge_kernel joins in the order of the tiles. Where a tile begins depends on the tokens
// alone, and sums run in the order of k. So a row has the same bits in any batch that this kernel takes.
//
// Candidates are the operand of 64 rows: a lane has 48 tokens of each of four candidates, and four lanes have a row of
// the tile. Two warpgroups compute 128 candidates each. One thread of a third starts copies. Blocks of a cluster of
// two have the same candidates and neighbouring tokens; each copies half of the candidates' rows for both, so
// that L2 gives 40 KiB for a step instead of 56.
//
// Shared memory: the stages of x and W, and three barriers for each: it is full, it is empty, and it is empty in the
// other block too. The threads that copy tell each other the last, so that no other waits for another block.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/boxes.h"
#include "kernels/cuda/device/warpgroups.h"
#include "kernels/cuda/head_kernels.h"
#include "kernels/cuda/head_tiles.h"

namespace unmask::cuda::UNMASK_TARGET {

// What a tile says of a candidate: its largest logit, the largest of all others, the first token of the largest
// (no_token: there is none above -infinity), and the sum over the others of 2^((z - best) / (T ln 2)).
struct alignas(16) head_tile_state {
  float best, second;
  std::int32_t token;
  float rest;
};

struct head_product_params {
  box_map x;               // [candidates, width], boxes of half a tile's rows
  box_map w;               // [tokens, width], boxes of a tile's tokens
  head_tile_state* state;  // [candidates, token_tiles]
  const std::int32_t* banned;
  int banned_count;
  int candidates, tokens, width;
  int row_tiles, token_tiles, items;  // head_tiles.h
  int first;                          // token of the whole head that is this one's first
  float scale;                        // 1 / (T ln 2)
};

constexpr int head_computing = 256, head_product_threads = head_computing + 128;
constexpr int head_half_rows = head_tile_rows / 2;  // of a warpgroup, and those that a block copies
constexpr int head_x_tile = head_tile_rows * head_tile_depth,
              head_w_tile = head_tile_tokens * head_tile_depth;  // elements
constexpr int head_stage_bytes = (head_x_tile + head_w_tile) * 2;
constexpr std::size_t head_product_shared_bytes =
    head_tile_stages * (head_stage_bytes + 3 * sizeof(phase_barrier));
constexpr int head_readers =
    head_computing / warp_size;  // warps that say that they have read a stage
constexpr int head_row_sets = head_half_rows / 64, head_columns = head_tile_tokens / 8;
static_assert(head_tile_cluster == 2 && head_row_sets == 2);

// A stage, and the parity of the phases of its barriers that end next.
struct head_ring {
  int stage = 0, parity = 0;
  UNMASK_DEVICE void next() {
    if (++stage == head_tile_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};
struct head_stages {
  std::uint16_t *x, *w;
  phase_barrier *full, *empty, *other_empty;
};

// The tiles of a block, one after the other. Those of all candidates and the same tokens are neighbours, so that
// blocks at work read the same weights.
struct head_tile {
  int row, tile;  // first candidate; number of its tokens' tile
};
UNMASK_DEVICE head_tile head_tile_of(const head_product_params& p, int item) {
  return {item % p.row_tiles * head_tile_rows,
          item / p.row_tiles * head_tile_cluster + cluster_rank()};
}
UNMASK_DEVICE int first_head_item() {
  return static_cast<int>(block_index()) / head_tile_cluster;
}
UNMASK_DEVICE int head_items_at_once() {
  return static_cast<int>(grid_size()) / head_tile_cluster;
}

// The thread that copies.
UNMASK_DEVICE void copy_head_tiles(const head_product_params& p, const head_stages& s) {
  const int half = cluster_rank() * head_half_rows;
  head_ring at;
#pragma unroll 1
  for (int item = first_head_item(); item < p.items; item += head_items_at_once()) {
    const head_tile t = head_tile_of(p, item);
#pragma unroll 1
    for (int k = 0; k < p.width; k += head_tile_depth) {
      phase_barrier* full = s.full + at.stage;
      wait_phase(s.empty + at.stage, at.parity ^ 1);
      arrive_at_peer(s.other_empty + at.stage, cluster_rank() ^ 1);
      arrive_with_bytes(full, head_stage_bytes);
      copy_box(s.w + at.stage * head_w_tile, p.w, k, t.tile * head_tile_tokens, full);
      wait_for_peer(s.other_empty + at.stage, at.parity);
      copy_box_to_pair(s.x + at.stage * head_x_tile + half * head_tile_depth, p.x, k, t.row + half,
                       full);
      at.next();
    }
  }
}

// sums[i][n]: of candidates lane / 4 (the first two) and 8 + lane / 4 of the 16 that a warp has of 64, and of tokens
// 8 n + 2 (lane % 4) and the next one.
using head_sums = float[head_row_sets][head_columns][4];

UNMASK_DEVICE void release_head_stage(const head_stages& s, int stage) {
  if (lane_index() == 0) arrive_at(s.empty + stage);
}

// One tile's products, in the order of k, 16 at a time.
UNMASK_DEVICE void multiply_head_tile(const head_stages& s, wgmma_place rows, wgmma_place tokens,
                                      int steps, head_ring& at, head_sums& sums) {
  constexpr int units = 8, set = 64 * head_tile_depth / units;  // of 16 bytes
  const auto start = [&]<bool adds>(std::bool_constant<adds>) {
    wait_phase(s.full + at.stage, at.parity);
    const wgmma_place a = same_in_warp(rows.further(at.stage * (head_x_tile / units))),
                      b = same_in_warp(tokens.further(at.stage * (head_w_tile / units)));
    wgmma_begin(sums);
#pragma unroll
    for (int k = 0; k < head_tile_depth / 16; ++k) {
#pragma unroll
      for (int i = 0; i < head_row_sets; ++i) {
        if (adds || k > 0) {
          wgmma_tile<true>(sums[i], a.further(i * set + 2 * k), b.further(2 * k));
        } else {
          wgmma_tile<false>(sums[i], a.further(i * set), b);
        }
      }
    }
    wgmma_commit();
  };
  start(std::false_type{});
  int read = at.stage;
  at.next();
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    start(std::true_type{});
    wgmma_wait<1>();
    release_head_stage(s, read);
    read = at.stage;
    at.next();
  }
  wgmma_wait<0>();
  wgmma_end(sums);
  release_head_stage(s, read);
}

// Tokens that are banned or behind the last one get the logit -infinity. first: of the tile, in this head.
UNMASK_DEVICE void refuse_tokens(const head_product_params& p, int first, head_sums& sums) {
  const int lane = lane_index() % 4 * 2;
  const auto refuse = [&](auto&& refused) {
#pragma unroll
    for (int n = 0; n < head_columns; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (!refused(n * 8 + e % 2)) continue;
#pragma unroll
        for (int i = 0; i < head_row_sets; ++i) sums[i][n][e] = -INFINITY;
      }
    }
  };
  if (first + head_tile_tokens > p.tokens) {
    const int left = p.tokens - first - lane;
    refuse([&](int token) { return token >= left; });
  }
  for (int b = 0; b < p.banned_count; ++b) {  // few, and seldom in this tile
    const int at = p.banned[b] - p.first - first;
    if (at < 0 || at >= head_tile_tokens) continue;
    refuse([&](int token) { return token == at - lane; });
  }
}

UNMASK_DEVICE float largest_of_quad(float x) {
  x = fmaxf(x, shuffle_xor(x, 1));
  return fmaxf(x, shuffle_xor(x, 2));
}
template <class T>
UNMASK_DEVICE T sum_of_quad(T x) {
  x += shuffle_xor(x, 1);
  return x + shuffle_xor(x, 2);
}

// The first token of the largest logit, whose places among a lane's even and odd tokens are bits. Counted in the
// tile; behind it: there is none.
UNMASK_DEVICE int first_of_quad(const std::uint32_t (&places)[2]) {
  int token = head_tile_tokens;
#pragma unroll
  for (int e = 1; e >= 0; --e) {
    const int at = (first_bit(places[e]) - 1) * 8 + lane_index() % 4 * 2 + e;
    token = places[e] != 0 && at < token ? at : token;
  }
  int other = shuffle_xor(token, 1);
  token = other < token ? other : token;
  other = shuffle_xor(token, 2);
  return other < token ? other : token;
}

// A row of the tile: logits z[n][e], z[n][e + 1]. Logits as large as the largest are not weighed but counted, so that
// the rest is exact where it is small. NaN is no largest, and its weight is NaN.
template <bool seconds, int e>
UNMASK_DEVICE head_tile_state fold_head_row(const float (&z)[head_columns][4], int first,
                                            float scale) {
  head_tile_state all{-INFINITY, -INFINITY, no_token, 0};
#pragma unroll
  for (int n = 0; n < head_columns; ++n) all.best = fmaxf(all.best, fmaxf(z[n][e], z[n][e + 1]));
  all.best = largest_of_quad(all.best);
  const bool holds = all.best > -INFINITY;
  const float base = holds ? all.best * scale : 0.0F;
  std::uint32_t places[2] = {};
  float sum[2] = {};
#pragma unroll
  for (int n = 0; n < head_columns; ++n) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
      const float x = z[n][e + odd];
      const float weight = exp2_fast(fused_multiply_add(x, scale, -base));
      if (x == all.best) {
        places[odd] |= 1U << n;
      } else {
        sum[odd] += weight;
        if constexpr (seconds) all.second = fmaxf(all.second, x);
      }
    }
  }
  all.rest = sum_of_quad(sum[0] + sum[1]);
  const int token = first_of_quad(places);
  const int equal = sum_of_quad(count_bits(places[0]) + count_bits(places[1]));
  if constexpr (seconds) all.second = largest_of_quad(all.second);
  if (holds) {
    all.token = first + token;
    all.rest += static_cast<float>(equal - 1);
    if (equal > 1) all.second = all.best;
  }
  return all;
}

template <bool seconds>
UNMASK_DEVICE void fold_head_tile(const head_product_params& p, const head_tile& t,
                                  head_sums& sums) {
  const int first = t.tile * head_tile_tokens;
  if (first >= p.tokens) return;  // the second block of the last cluster
  refuse_tokens(p, first, sums);
  const int row =
      t.row + warp_index() / 4 * head_half_rows + warp_index() % 4 * 16 + lane_index() / 4;
  const auto keep = [&](const head_tile_state& state, int at) {
    if (lane_index() % 4 == 0 && at < p.candidates) {
      word_at<head_tile_state>(p.state + static_cast<std::int64_t>(at) * p.token_tiles + t.tile) =
          state;
    }
  };
#pragma unroll
  for (int i = 0; i < head_row_sets; ++i) {
    keep(fold_head_row<seconds, 0>(sums[i], p.first + first, p.scale), row + i * 64);
    keep(fold_head_row<seconds, 2>(sums[i], p.first + first, p.scale), row + i * 64 + 8);
  }
}

// The warpgroups that compute.
template <bool seconds>
UNMASK_DEVICE void compute_head_tiles(const head_product_params& p, const head_stages& s) {
  const int steps = (p.width + head_tile_depth - 1) / head_tile_depth;
  const wgmma_place rows = place_of(
                        s.x + shuffle(warp_index() / 4, 0) * head_half_rows * head_tile_depth, 16),
                    tokens = place_of(s.w, 16);
  head_ring at;
#pragma unroll 1
  for (int item = first_head_item(); item < p.items; item += head_items_at_once()) {
    head_sums sums;
    multiply_head_tile(s, rows, tokens, steps, at, sums);
    fold_head_tile<seconds>(p, head_tile_of(p, item), sums);
  }
}

// Blocks: clusters of two, as many as multiply at once. Only Hopper's machine code has it (ops/head_product.cu).
// seconds: the second largest logit is found too, for the margin and the gap.
template <bool seconds>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(head_product_threads, 1)
    head_product_kernel([[maybe_unused]] UNMASK_ARGUMENT head_product_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  shared_allocator shared;
  head_stages s{};
  s.x = shared.take<std::uint16_t>(head_tile_stages * head_x_tile).data();
  s.w = shared.take<std::uint16_t>(head_tile_stages * head_w_tile).data();
  s.full = shared.take<phase_barrier>(head_tile_stages).data();
  s.empty = shared.take<phase_barrier>(head_tile_stages).data();
  s.other_empty = shared.take<phase_barrier>(head_tile_stages).data();
  if (thread_index() == 0) {
    for (int stage = 0; stage < head_tile_stages; ++stage) {
      start_phases(s.full + stage, 1);
      start_phases(s.empty + stage, head_readers);
      start_phases(s.other_empty + stage, 1);
    }
    publish_phases();
  }
  sync_warp();
  sync_cluster();
  if (shuffle(warp_index() / 4, 0) == head_computing / 128) {
    give_registers<40>();
    if (thread_index() == head_computing) copy_head_tiles(p, s);
  } else {
    take_registers<232>();
    compute_head_tiles<seconds>(p, s);
  }
  sync_warp();
  sync_cluster();  // nobody copies to a block that has ended, or arrives there
#endif
}

// The states of a candidate's tiles, and its results unless those of other pieces are missing. One warp per candidate.
struct head_tiles_merge_params {
  head_params head;
  const head_tile_state* state;  // [candidates, tiles]
  int tiles;
};
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_tiles_merge_kernel(head_tiles_merge_params p) {
  const int c = static_cast<int>(block_index()) * (head_threads / warp_size) + warp_index();
  if (c >= p.head.candidates.count) return;
  const head_tile_state* states = p.state + static_cast<std::int64_t>(c) * p.tiles;
  float best = -INFINITY, second = -INFINITY;
  std::int32_t token = no_token;
#pragma unroll 4
  for (int t = lane_index(); t < p.tiles; t += warp_size) {
    const head_tile_state s = word_at<head_tile_state>(states + t);
    second = fmaxf(fmaxf(second, s.second), fminf(best, s.best));
    token = s.best > best ? s.token : token;
    best = fmaxf(best, s.best);
  }
  head_state all = empty_state();
  all.best = warp_max(best);
  all.token = warp_min(best == all.best ? token : no_token);
  const bool wins = best == all.best && token == all.token;
  all.second = warp_max(wins ? second : best);
  double rest = 0;
#pragma unroll 4
  for (int t = lane_index(); t < p.tiles; t += warp_size) {
    const head_tile_state s = word_at<head_tile_state>(states + t);
    const double own = static_cast<double>(s.rest),
                 gap = (static_cast<double>(s.best) - static_cast<double>(all.best)) *
                       p.head.inverse_temperature;
    // A state without a token has nothing to add but NaN.
    const bool is_rest = s.token == all.token || s.token == no_token;
    rest += is_rest ? own : (1.0 + own) * wide_exp(gap, false);
  }
  all.rest = warp_sum(rest);
  if (lane_index() != 0) return;
  p.head.state[c] = all;
  if (p.head.pieces == 0) write_result(p.head, c, all);
}

}  // namespace unmask::cuda::UNMASK_TARGET
