// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What decoding reads from the LM head. The vocabulary is processed in chunks of head_columns: the
// product of a chunk is written to a small buffer that stays in L2, and one block per candidate
// folds it into a running state; no [C, V] matrix exists. One pass gives arg-max, second largest
// logit and softmax sum together (online softmax):
//   state (best, rest): rest = sum over v other than the best of e^((z_v - best) / T),
//   two states: the smaller best becomes part of the rest, (1 + rest') e^((best' - best) / T).
// `rest` keeps 1 - p exact where p rounds to 1. Sums run in float64 over the same columns in the
// same order for every candidate, so the batch does not matter.
#pragma once

#include "kernels/cuda/device/portable.h"
#include "kernels/head.h"
#include "kernels/noise.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int head_threads = 256;
constexpr int head_columns = 8192;
constexpr int no_token = 0x7FFFFFFF;

struct head_state {
  float best, second;  // largest logit and the largest of all others
  std::int32_t token;  // of best, the lowest; no_token: nothing above -infinity yet
  std::int32_t noised_token;
  double noised_best;
  float noised_logit;
  float unused;
  double rest;
};

UNMASK_DEVICE head_state empty_state() {
  return {-INFINITY, -INFINITY, no_token, no_token, -INFINITY, -INFINITY, 0, 0};
}

// e^x in the precision asked for. A candidate near certainty needs more than float32: x there is
// a difference of logits, and its relative error is that of the result.
UNMASK_DEVICE double wide_exp(double x, bool wide) {
  return wide ? exp(x) : static_cast<double>(expf(static_cast<float>(x)));
}

UNMASK_DEVICE head_state merge_states(const head_state& x, const head_state& y, double inverse_t,
                                      bool wide) {
  const bool second_wins = y.best > x.best || (y.best == x.best && y.token < x.token);
  const head_state& a = second_wins ? y : x;
  const head_state& b = second_wins ? x : y;
  head_state m = a;
  m.second = b.best > a.second ? b.best : a.second;
  if (b.token == no_token) {
    m.rest += b.rest;  // nothing, or NaN
  } else {
    const double gap = (static_cast<double>(b.best) - static_cast<double>(a.best)) * inverse_t;
    m.rest += (1.0 + b.rest) * wide_exp(gap, wide);
  }
  if (y.noised_best > x.noised_best ||
      (y.noised_best == x.noised_best && y.noised_token < x.noised_token)) {
    m.noised_best = y.noised_best;
    m.noised_token = y.noised_token;
    m.noised_logit = y.noised_logit;
  } else {
    m.noised_best = x.noised_best;
    m.noised_token = x.noised_token;
    m.noised_logit = x.noised_logit;
  }
  return m;
}

struct head_params {
  const float* logit;  // [C, columns] of this chunk
  std::int64_t logit_stride;
  int first, columns;  // tokens first .. first + columns - 1
  head_state* state;   // [C]
  double* entropy;     // [C] or null
  candidate_set candidates;
  noise_source noise;
  const std::int32_t* banned;
  int banned_count;
  double inverse_temperature, gumbel_temperature;
  bool wide;
  confidence_out out;
};

UNMASK_DEVICE bool is_banned(const head_params& p, int token) {
  for (int i = 0; i < p.banned_count; ++i) {
    if (p.banned[i] == token) return true;
  }
  return false;
}

// Sequence of candidate c: the last s with begin[s] <= c.
UNMASK_DEVICE int sequence_of_candidate(const candidate_set& candidates, int c) {
  int low = 0, high = candidates.sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (candidates.begin[middle] <= c) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Folds one chunk into the candidates' states. One block per candidate.
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_chunk_kernel(head_params p) {
  shared_allocator shared;
  const shared_array<head_state> scratch = shared.take<head_state>(head_threads / warp_size);
  const int c = static_cast<int>(block_index()), t = static_cast<int>(thread_index());
  const float* logit = p.logit + c * p.logit_stride;
  const bool noisy = p.gumbel_temperature > 0;
  const std::uint64_t key =
      noisy ? noise_key(p.candidates, p.noise, sequence_of_candidate(p.candidates, c), c) : 0;
  head_state mine = empty_state();
  for (int i = t; i < p.columns; i += head_threads) {
    const int token = p.first + i;
    head_state one = empty_state();
    const float z = is_banned(p, token) ? -INFINITY : logit[i];
    if (z != z) {
      one.rest = z;
    } else if (z > -INFINITY) {
      one.best = z;
      one.token = token;
    }
    if (noisy) {
      const double u = uniform_open(key, static_cast<std::uint64_t>(token));
      const double noised = static_cast<double>(z) - p.gumbel_temperature * log(-log(u));
      if (noised > -INFINITY) {
        one.noised_best = noised;
        one.noised_token = token;
        one.noised_logit = z;
      }
    }
    mine = merge_states(mine, one, p.inverse_temperature, p.wide);
  }
#pragma unroll
  for (int delta = warp_size / 2; delta > 0; delta /= 2) {
    head_state other;
    other.best = shuffle_down(mine.best, delta);
    other.second = shuffle_down(mine.second, delta);
    other.token = shuffle_down(mine.token, delta);
    other.noised_token = shuffle_down(mine.noised_token, delta);
    other.noised_best = shuffle_down(mine.noised_best, delta);
    other.noised_logit = shuffle_down(mine.noised_logit, delta);
    other.rest = shuffle_down(mine.rest, delta);
    if (lane_index() < delta) mine = merge_states(mine, other, p.inverse_temperature, p.wide);
  }
  if (lane_index() == 0) scratch[warp_index()] = mine;
  sync_block();
  if (t == 0) {
    head_state all = p.first == 0 ? empty_state() : p.state[c];
    for (int w = 0; w < head_threads / warp_size; ++w) {
      all = merge_states(all, scratch[w], p.inverse_temperature, p.wide);
    }
    p.state[c] = all;
  }
}

// entropy += sum_v p_v ln(p_v + 1e-10) of one chunk; the state must be complete.
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_entropy_kernel(head_params p) {
  shared_allocator shared;
  const shared_array<double> scratch = shared.take<double>(head_threads / warp_size);
  const int c = static_cast<int>(block_index());
  const float* logit = p.logit + c * p.logit_stride;
  const head_state state = p.state[c];
  const double total = 1.0 + state.rest;
  double sum = 0;
  for (int i = static_cast<int>(thread_index()); i < p.columns; i += head_threads) {
    const float z = is_banned(p, p.first + i) ? -INFINITY : logit[i];
    const double gap =
        (static_cast<double>(z) - static_cast<double>(state.best)) * p.inverse_temperature;
    const double probability = wide_exp(gap, p.wide) / total;
    sum +=
        probability * (p.wide ? log(probability + 1e-10)
                              : static_cast<double>(logf(static_cast<float>(probability + 1e-10))));
  }
  sum = block_sum(sum, scratch);
  if (thread_index() == 0) p.entropy[c] = (p.first == 0 ? 0.0 : p.entropy[c]) + sum;
}

// Writes what was asked for. One thread per candidate.
UNMASK_KERNEL void head_result_kernel(head_params p) {
  const int c = static_cast<int>(block_index() * block_size() + thread_index());
  if (c >= p.candidates.count) return;
  const head_state s = p.state[c];
  const bool noisy = p.gumbel_temperature > 0;
  const std::int32_t token = noisy ? s.noised_token : s.token;
  const bool none = token == no_token;
  // Nothing but -infinity and NaN, or an infinite logit: the softmax is not defined.
  const bool undefined = s.token == no_token || s.best == INFINITY;
  const double total = undefined ? static_cast<double>(float_bits(0x7FC00000U)) : 1.0 + s.rest;
  double chosen = 1;
  if (noisy && token != s.token) {
    chosen = none ? 0.0
                  : wide_exp((static_cast<double>(s.noised_logit) - static_cast<double>(s.best)) *
                                 p.inverse_temperature,
                             p.wide);
  }
  const confidence_out& o = p.out;
  if (o.token != nullptr) o.token[c] = none ? 0 : token;
  if (o.probability != nullptr) o.probability[c] = static_cast<float>(chosen / total);
  if (o.residual != nullptr) {
    o.residual[c] = static_cast<float>((s.rest + (1.0 - chosen)) / total);
  }
  if (o.margin != nullptr) {
    const double second =
        s.second > -INFINITY
            ? wide_exp((static_cast<double>(s.second) - static_cast<double>(s.best)) *
                           p.inverse_temperature,
                       p.wide)
            : 0.0;
    o.margin[c] = static_cast<float>((1.0 - second) / total);
  }
  if (o.negative_entropy != nullptr) o.negative_entropy[c] = static_cast<float>(p.entropy[c]);
  if (o.top2_logit_gap != nullptr) o.top2_logit_gap[c] = s.best - s.second;
}

}  // namespace unmask::cuda::UNMASK_TARGET
