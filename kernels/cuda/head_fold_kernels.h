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

// Largest of a lane's logits (NaN is none), which load has it first, and the largest of all other loads.
struct head_largest {
  float best, elsewhere;
  int load;
};
template <bool seconds>
UNMASK_DEVICE head_largest largest_of(const four_logits (&z)[head_loads]) {
  head_largest l{-INFINITY, -INFINITY, 0};
#pragma unroll
  for (int j = 0; j < head_loads; ++j) {
    const float four = fmaxf(fmaxf(z[j].z[0], z[j].z[1]), fmaxf(z[j].z[2], z[j].z[3]));
    if constexpr (seconds) l.elsewhere = fmaxf(l.elsewhere, fminf(l.best, four));
    if (four > l.best) {
      l.best = four;
      l.load = j;
    }
  }
  return l;
}

// The load that has a lane's largest logit: the first token of that logit, counted in the slice, and of the
// other three tokens their largest logit and the sum of their weights.
struct head_load {
  int token;
  float second, rest;
};
// Reads the load from `i` on again, as its registers have no number that a lane could choose. whole: the slice
// has all its tokens, and loads are aligned.
template <bool seconds>
UNMASK_DEVICE head_load load_of_best(const head_params& p, const float* from, int first, int i,
                                     bool whole, float best, float scale, float base) {
  four_logits z;
  if (whole) {
    z = word_at<four_logits>(from + i);
  } else {
#pragma unroll
    for (int e = 0; e < head_vector; ++e) {
      z.z[e] = first + i + e < p.columns ? from[i + e] : -INFINITY;
    }
  }
  for (int b = 0; b < p.banned_count; ++b) {
    const int at = p.banned[b] - p.first - first - i;
#pragma unroll
    for (int e = 0; e < head_vector; ++e) {
      if (at == e) z.z[e] = -INFINITY;
    }
  }
  head_load found{no_token, -INFINITY, 0};
#pragma unroll
  for (int e = head_vector - 1; e >= 0; --e) {
    if (z.z[e] == best) found.token = i + e;
  }
#pragma unroll
  for (int e = 0; e < head_vector; ++e) {
    const float other = i + e == found.token ? -INFINITY : z.z[e];
    if constexpr (seconds) found.second = fmaxf(found.second, other);
    found.rest += exp2_fast(fused_multiply_add(other, scale, -base));
  }
  return found;
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
  const bool whole = left >= head_slice && (reinterpret_cast<std::uintptr_t>(from) & 15U) == 0;
  if (whole) {
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
  const float scale = static_cast<float>(p.inverse_temperature) * 1.4426950408889634F;
  const float base = all.best > -INFINITY ? all.best * scale : 0.0F;
  head_load found{no_token, -INFINITY, 0};
  const bool holds = mine.best == all.best && all.best > -INFINITY;
  if (holds) {
    const int i = (mine.load * warp_size + lane) * head_vector;
    found = load_of_best<seconds>(p, from, first, i, whole, all.best, scale, base);
  }
  const int winner = warp_min(found.token);
  const bool wins = holds && found.token == winner;
  if constexpr (seconds) {
    all.second = warp_max(wins ? fmaxf(mine.elsewhere, found.second) : mine.best);
  }
  // The winner's own load comes without its best, so that the rest is exact where it is small.
  float sum = wins ? found.rest : 0.0F;
#pragma unroll
  for (int j = 0; j < head_loads; ++j) {
    float weight[head_vector];
#pragma unroll
    for (int e = 0; e < head_vector; ++e) {
      weight[e] = exp2_fast(fused_multiply_add(z[j].z[e], scale, -base));
    }
    const float four = (weight[0] + weight[1]) + (weight[2] + weight[3]);
    sum += wins && j == mine.load ? 0.0F : four;
  }
  all.rest = warp_sum(static_cast<double>(sum));
  if (lane == 0) {
    all.token = winner == no_token ? no_token : p.first + first + winner;
    p.partial[static_cast<std::int64_t>(c) * p.slices + slice] = all;
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
