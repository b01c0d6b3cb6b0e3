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

// Loads in pairs: a pair has eight logits. More would be read again, fewer compared more often.
constexpr int head_pairs = head_loads / 2;
constexpr int head_apart = warp_size * head_vector;  // from a load to the next

// Largest of a lane's logits (NaN is none), which pair of loads has it first, and the largest of all other pairs.
struct head_largest {
  float best, elsewhere;
  int pair;
};
UNMASK_DEVICE float largest_of_four(const four_logits& four) {
  return fmaxf(fmaxf(four.z[0], four.z[1]), fmaxf(four.z[2], four.z[3]));
}
template <bool seconds>
UNMASK_DEVICE head_largest largest_of(const four_logits (&z)[head_loads]) {
  head_largest l{-INFINITY, -INFINITY, 0};
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    const float eight = fmaxf(largest_of_four(z[2 * j]), largest_of_four(z[2 * j + 1]));
    if constexpr (seconds) l.elsewhere = fmaxf(l.elsewhere, fminf(l.best, eight));
    if (eight > l.best) {
      l.best = eight;
      l.pair = j;
    }
  }
  return l;
}

// The pair of loads that has a lane's largest logit: the first token of that logit, counted in the slice, and of the
// other seven tokens their largest logit and the sum of their weights.
struct head_pair {
  int token;
  float second, rest;
};
// Reads the pair from `i` on again, as its registers have no number that a lane could choose. whole: the slice
// has all its tokens, and loads are aligned.
template <bool seconds>
UNMASK_DEVICE head_pair pair_of_best(const head_params& p, const float* from, int first, int i,
                                     bool whole, float best, float scale, float base) {
  four_logits z[2];
  if (whole) {
    z[0] = word_at<four_logits>(from + i);
    z[1] = word_at<four_logits>(from + i + head_apart);
  } else {
#pragma unroll
    for (int n = 0; n < 2 * head_vector; ++n) {
      const int at = i + n / head_vector * head_apart + n % head_vector;
      z[n / head_vector].z[n % head_vector] = first + at < p.columns ? from[at] : -INFINITY;
    }
  }
  for (int b = 0; b < p.banned_count; ++b) {
    const int at = p.banned[b] - p.first - first - i;
#pragma unroll
    for (int n = 0; n < 2 * head_vector; ++n) {
      if (at == n / head_vector * head_apart + n % head_vector) {
        z[n / head_vector].z[n % head_vector] = -INFINITY;
      }
    }
  }
  int winner = 2 * head_vector;
#pragma unroll
  for (int n = 2 * head_vector - 1; n >= 0; --n) {
    if (z[n / head_vector].z[n % head_vector] == best) winner = n;
  }
  head_pair found{i + winner / head_vector * head_apart + winner % head_vector, -INFINITY, 0};
#pragma unroll
  for (int n = 0; n < 2 * head_vector; ++n) {
    const float other = n == winner ? -INFINITY : z[n / head_vector].z[n % head_vector];
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
  head_pair found{no_token, -INFINITY, 0};
  const bool holds = mine.best == all.best && all.best > -INFINITY;
  if (holds) {
    const int i = mine.pair * 2 * head_apart + lane * head_vector;
    found = pair_of_best<seconds>(p, from, first, i, whole, all.best, scale, base);
  }
  const int winner = warp_min(found.token);
  const bool wins = holds && found.token == winner;
  if constexpr (seconds) {
    all.second = warp_max(wins ? fmaxf(mine.elsewhere, found.second) : mine.best);
  }
  // The winner's own pair comes without its best, so that the rest is exact where it is small.
  float sum = wins ? found.rest : 0.0F;
#pragma unroll
  for (int j = 0; j < head_pairs; ++j) {
    float half[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      float weight[head_vector];
#pragma unroll
      for (int e = 0; e < head_vector; ++e) {
        weight[e] = exp2_fast(fused_multiply_add(z[2 * j + k].z[e], scale, -base));
      }
      half[k] = (weight[0] + weight[1]) + (weight[2] + weight[3]);
    }
    sum += wins && j == mine.pair ? 0.0F : half[0] + half[1];
  }
  all.rest = warp_sum(static_cast<double>(sum));
  if (lane == 0) {
    all.token = winner == no_token ? no_token : p.first + first + winner;
    p.partial[static_cast<std::int64_t>(c) * p.slices + slice] = all;
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
