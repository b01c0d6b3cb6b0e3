// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Folds a chunk of logits into partial states, as head_chunk_kernel<false, false> (head_kernels.h), in two
// passes over registers. A lane holds its 64 logits of a slice and takes their largest. Then it sums
//   rest = sum over v other than the best of 2^((z_v - best) / (T ln 2))
// under the largest logit of the whole slice. No logit waits for the one before it, and the exponent is one
// instruction. Float32 sums, in which a weight below 2^-126 is 0; lanes are added in float64.
#pragma once

#include "kernels/cuda/head_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int head_loads = head_slice / (warp_size * head_vector);  // of a lane: 16 of four logits

// Largest of a lane's logits (NaN is none), and which load has it first.
struct head_largest {
  float best, second;
  int load;
};
template <bool seconds>
UNMASK_DEVICE head_largest largest_of(const four_logits (&z)[head_loads]) {
  head_largest l{-INFINITY, -INFINITY, 0};
#pragma unroll
  for (int j = 0; j < head_loads; ++j) {
    const float a = fmaxf(z[j].z[0], z[j].z[1]), b = fmaxf(z[j].z[2], z[j].z[3]);
    const float four = fmaxf(a, b);
    if constexpr (seconds) {
      const float low =
          fmaxf(fminf(a, b), a > b ? fminf(z[j].z[0], z[j].z[1]) : fminf(z[j].z[2], z[j].z[3]));
      l.second = fmaxf(fmaxf(l.second, low), fminf(l.best, four));
    }
    if (four > l.best) {
      l.best = four;
      l.load = j;
    }
  }
  return l;
}

// logit [candidates, columns] of this chunk -> partial [candidates, slices]. Blocks: candidates x four
// slices, one per warp. seconds: the second largest logit is found too, for the margin and the gap.
template <bool seconds>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(head_threads, 5) head_fold_kernel(head_params p) {
  const int c = p.first_candidate + static_cast<int>(block_index());
  const int slice = static_cast<int>(block_index_y()) * (head_threads / warp_size) + warp_index();
  const int first = slice * head_slice, left = p.columns - first, lane = lane_index();
  if (left <= 0) return;
  const float* from = p.logit + block_index() * p.logit_stride + first;
  four_logits z[head_loads];
  if (left >= head_slice && (reinterpret_cast<std::uintptr_t>(from) & 15U) == 0) {
#pragma unroll
    for (int j = 0; j < head_loads; ++j) {
      z[j] = word_at<four_logits>(from + (j * warp_size + lane) * head_vector);
    }
  } else {
#pragma unroll
    for (int j = 0; j < head_loads; ++j) {
#pragma unroll
      for (int e = 0; e < head_vector; ++e) {
        constexpr int apart = warp_size * head_vector;
        const bool there = j * apart + e < left - lane * head_vector;
        z[j].z[e] = there ? from[lane * head_vector + j * apart + e] : -INFINITY;
      }
    }
  }
  for (int b = 0; b < p.banned_count; ++b) {  // few, and seldom in this slice
    const int at = p.banned[b] - p.first - first;
    if (at < 0 || at >= head_slice || at / head_vector % warp_size != lane) continue;
    const int mine = at - lane * head_vector;
#pragma unroll
    for (int j = 0; j < head_loads; ++j) {
#pragma unroll
      for (int e = 0; e < head_vector; ++e) {
        if (mine == j * warp_size * head_vector + e) z[j].z[e] = -INFINITY;
      }
    }
  }
  const head_largest mine = largest_of<seconds>(z);
  head_state all = empty_state();
  all.best = warp_max(mine.best);
  // The first token of that logit: read again, of the one load that has it.
  int token = no_token;
  float others[head_vector];
  const bool holds = mine.best == all.best && all.best > -INFINITY;
  if (holds) {
    const int i = (mine.load * warp_size + lane) * head_vector;
#pragma unroll
    for (int e = head_vector - 1; e >= 0; --e) {
      others[e] = i + e < left && !is_banned(p, p.first + first + i + e) ? from[i + e] : -INFINITY;
      if (others[e] == all.best) token = i + e;
    }
  }
  const int winner = warp_min(token);
  const bool wins = holds && token == winner;
  if constexpr (seconds) all.second = warp_max(wins ? mine.second : mine.best);
  const float scale = static_cast<float>(p.inverse_temperature) * 1.4426950408889634F;
  const float base = all.best > -INFINITY ? all.best * scale : 0.0F;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < head_loads; ++j) {
    float four = 0;
#pragma unroll
    for (int e = 0; e < head_vector; ++e) {
      four += exp2_fast(fused_multiply_add(z[j].z[e], scale, -base));
    }
    sum += wins && j == mine.load ? 0.0F : four;
  }
  if (wins) {  // its own load without the best, so that the rest is exact where it is small
#pragma unroll
    for (int e = 0; e < head_vector; ++e) {
      const bool best = (mine.load * warp_size + lane) * head_vector + e == winner;
      sum += best ? 0.0F : exp2_fast(fused_multiply_add(others[e], scale, -base));
    }
  }
  all.rest = warp_sum(static_cast<double>(sum));
  if (lane == 0) {
    all.token = winner == no_token ? no_token : p.first + first + winner;
    p.partial[static_cast<std::int64_t>(c) * p.slices + slice] = all;
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
