// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What decoding reads from the LM head. The vocabulary is processed in chunks: the product of a chunk
// is written to a buffer that stays in L2, and one warp per candidate and slice of head_slice tokens
// folds it into a partial state; no [C, V] matrix exists. One pass gives arg-max, second largest
// logit and softmax sum together (online softmax):
//   state (best, rest): rest = sum over v other than the best of e^((z_v - best) / T),
//   two states: the smaller best becomes part of the rest, (1 + rest') e^((best' - best) / T).
// `rest` keeps 1 - p exact where p rounds to 1. A lane sums 64 tokens in the precision asked for;
// lanes and slices are merged in float64. Slices and their order do not depend on the number of
// candidates, so the batch does not matter.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/portable.h"
#include "kernels/cuda/head_chunks.h"
#include "kernels/head.h"
#include "kernels/noise.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int head_threads = 128;
constexpr int head_vector = 4;  // logits in one load
constexpr int no_token = 0x7FFFFFFF;

struct head_state {
  float best, second;  // largest logit and the largest of all others
  std::int32_t token;  // of best, the lowest; no_token: nothing above -infinity yet
  std::int32_t noised_token;
  double noised_best;
  float noised_logit;
  std::uint32_t row_sum;  // of a piece of a cut head: of the bits of the row that was read
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

// Selects by value: a reference to one of two structs would put both on the stack.
UNMASK_DEVICE head_state merge_states(const head_state& x, const head_state& y, double inverse_t,
                                      bool wide) {
  const bool y_wins = y.best > x.best || (y.best == x.best && y.token < x.token);
  const float high = y_wins ? y.best : x.best, low = y_wins ? x.best : y.best;
  const float runner_up = y_wins ? y.second : x.second;
  const std::int32_t low_token = y_wins ? x.token : y.token;
  const double high_rest = y_wins ? y.rest : x.rest, low_rest = y_wins ? x.rest : y.rest;
  head_state m;
  m.best = high;
  m.second = low > runner_up ? low : runner_up;
  m.token = y_wins ? y.token : x.token;
  const double gap = (static_cast<double>(low) - static_cast<double>(high)) * inverse_t;
  // A state without a token has nothing to add but NaN.
  m.rest = high_rest + (low_token == no_token ? low_rest : (1.0 + low_rest) * wide_exp(gap, wide));
  const bool y_noised = y.noised_best > x.noised_best ||
                        (y.noised_best == x.noised_best && y.noised_token < x.noised_token);
  m.noised_best = y_noised ? y.noised_best : x.noised_best;
  m.noised_token = y_noised ? y.noised_token : x.noised_token;
  m.noised_logit = y_noised ? y.noised_logit : x.noised_logit;
  m.row_sum = 0;
  return m;
}

// The merged state of the warp's lanes, on every lane: one maximum, one minimum and one sum over the
// lanes instead of five merges of whole states.
template <bool noisy>
UNMASK_DEVICE head_state merge_lanes(const head_state& mine, double inverse_t, bool wide) {
  head_state m;
  m.best = warp_max(mine.best);
  m.token = warp_min(mine.best == m.best ? mine.token : no_token);
  const bool wins = mine.best == m.best && mine.token == m.token;
  m.second = warp_max(wins ? mine.second : mine.best);
  double rest = mine.rest;
  if (!wins && mine.token != no_token) {
    const double gap = (static_cast<double>(mine.best) - static_cast<double>(m.best)) * inverse_t;
    rest = (1.0 + mine.rest) * wide_exp(gap, wide);
  }
  m.rest = warp_sum(rest);
  m.noised_best = -INFINITY;
  m.noised_token = no_token;
  m.noised_logit = -INFINITY;
  m.row_sum = 0;
  if constexpr (noisy) {
    m.noised_best = warp_max(mine.noised_best);
    m.noised_token = warp_min(mine.noised_best == m.noised_best ? mine.noised_token : no_token);
    m.noised_logit = warp_max(mine.noised_token == m.noised_token ? mine.noised_logit : -INFINITY);
  }
  return m;
}

struct head_params {
  const float* logit;  // [., columns] of this chunk, from first_candidate on
  std::int64_t logit_stride;
  int first_candidate;
  int first, columns;   // tokens first .. first + columns - 1
  int slices;           // of this head, or of this piece of a cut one
  int pieces;           // of a cut head, whose results wait for all pieces; 0: it is whole
  head_state* partial;  // [C, slices], of a chunk from its first slice on; of a join [pieces, C]
  head_state* state;    // [C] all slices
  double* entropy;      // the same, or null
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

struct alignas(16) four_logits {
  float z[head_vector];
};

// Calls visit(token, logit) for the tokens of this lane in the slice, in ascending order. A banned
// token has the logit -infinity.
template <class F>
UNMASK_DEVICE void for_each_logit(const head_params& p, const float* logit, int slice_first,
                                  const F& visit) {
  const int left = p.columns - slice_first;
  const int count = left < head_slice ? left : head_slice;
  const float* from = logit + slice_first;
  // The list is looked through once for the slice, and token by token only where it says so.
  bool some_banned = false;
  for (int i = 0; i < p.banned_count; ++i) {
    const int at = p.banned[i] - p.first - slice_first;
    some_banned = some_banned || (at >= 0 && at < count);
  }
  const auto take = [&](int i, float z) {
    const int token = p.first + slice_first + i;
    visit(token, some_banned && is_banned(p, token) ? -INFINITY : z);
  };
  const bool vectors = (reinterpret_cast<std::uintptr_t>(from) & 15U) == 0 && count == head_slice;
  if (vectors) {
#pragma unroll 4
    for (int i = lane_index() * head_vector; i < head_slice; i += warp_size * head_vector) {
      const four_logits four = *reinterpret_cast<const four_logits*>(from + i);
#pragma unroll
      for (int j = 0; j < head_vector; ++j) take(i + j, four.z[j]);
    }
  } else {
    // The same tokens in the same order as above, so that alignment changes no bit.
    for (int i = lane_index() * head_vector; i < count; i += warp_size * head_vector) {
      for (int j = 0; j < head_vector && i + j < count; ++j) take(i + j, from[i + j]);
    }
  }
}

// Folds slices of one chunk into partial states. Blocks: candidates x four slices, one per warp.
template <bool wide, bool noisy>
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_chunk_kernel(head_params p) {
  using number = std::conditional_t<wide, double, float>;
  const int c = p.first_candidate + static_cast<int>(block_index());
  const int slice = static_cast<int>(block_index_y()) * (head_threads / warp_size) + warp_index();
  if (slice * head_slice >= p.columns) return;
  const number inverse_t = static_cast<number>(p.inverse_temperature);
  const std::uint64_t key =
      noisy ? noise_key(p.candidates, p.noise, sequence_of_candidate(p.candidates, c), c) : 0;
  float best = -INFINITY, second = -INFINITY, noised_logit = -INFINITY;
  std::int32_t token_of_best = no_token, noised_token = no_token;
  double noised_best = -INFINITY;
  number rest = 0;
  for_each_logit(
      p, p.logit + block_index() * p.logit_stride, slice * head_slice, [&](int token, float z) {
        const bool wins = z > best;
        const float low = wins ? best : z;
        second = low > second ? low : second;
        number weight = 0;
        if (low > -INFINITY) {
          const float high = wins ? z : best;
          weight = static_cast<number>(
              exp((static_cast<number>(low) - static_cast<number>(high)) * inverse_t));
        } else if (z != z) {
          weight = z;
        }
        // The former best becomes part of the rest; before the first token there is nothing but NaN.
        rest = !wins || token_of_best == no_token ? rest + weight : (rest + 1) * weight;
        token_of_best = wins ? token : token_of_best;
        best = wins ? z : best;
        if constexpr (noisy) {
          const double u = uniform_open(key, static_cast<std::uint64_t>(token));
          const double noised = static_cast<double>(z) - p.gumbel_temperature * log(-log(u));
          if (noised > noised_best) {
            noised_best = noised;
            noised_token = token;
            noised_logit = z;
          }
        }
      });
  const head_state mine{best,
                        second,
                        token_of_best,
                        noised_token,
                        noised_best,
                        noised_logit,
                        0,
                        static_cast<double>(rest)};
  const head_state all = merge_lanes<noisy>(mine, p.inverse_temperature, wide);
  if (lane_index() == 0) {
    p.partial[static_cast<std::int64_t>(c) * p.slices + slice] = all;
  }
}

// Writes what was asked for of candidate c, but for the entropy.
UNMASK_DEVICE void write_result(const head_params& p, int c, const head_state& s) {
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
  if (o.top2_logit_gap != nullptr) o.top2_logit_gap[c] = s.best - s.second;
}

// All slices of a candidate, and its results unless the entropy, which needs this sum, is one. One
// warp per candidate.
template <bool noisy>
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_merge_kernel(head_params p) {
  const int c = static_cast<int>(block_index()) * (head_threads / warp_size) + warp_index();
  if (c >= p.candidates.count) return;
  const head_state* partial = p.partial + static_cast<std::int64_t>(c) * p.slices;
  head_state mine = empty_state();
  for (int s = lane_index(); s < p.slices; s += warp_size) {
    mine = merge_states(mine, partial[s], p.inverse_temperature, p.wide);
  }
  const head_state all = merge_lanes<noisy>(mine, p.inverse_temperature, p.wide);
  if (lane_index() != 0) return;
  p.state[c] = all;
  if (p.pieces == 0 && p.out.negative_entropy == nullptr) write_result(p, c, all);
}

// To what a rank sends of each row that it reads, for each of its pieces or once: a sum of its bits that depends on no
// order.
struct head_stamp_params {
  const void* x;        // float32 or, if `halves`, bfloat16
  std::int64_t stride;  // elements
  int width;
  bool halves;
  const std::int32_t* row;  // [C]
  std::uint32_t* to;        // of row c for piece i: to[i * of_piece + c * of_row]
  std::int64_t of_piece, of_row;
  int count, held;
};
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_stamp_kernel(head_stamp_params p) {
  const int c = static_cast<int>(block_index()) * (head_threads / warp_size) + warp_index();
  if (c >= p.count) return;
  const std::int64_t from = p.row[c] * p.stride;
  std::uint32_t sum = 0;
  for (int i = lane_index(); i < p.width; i += warp_size) {
    const std::uint32_t bits = p.halves ? static_cast<const std::uint16_t*>(p.x)[from + i]
                                        : static_cast<const std::uint32_t*>(p.x)[from + i];
    sum += bits * (2U * static_cast<std::uint32_t>(i) + 1U);
  }
  sum = warp_sum(sum);
  for (int i = lane_index(); i < p.held; i += warp_size) {
    p.to[i * p.of_piece + c * p.of_row] = sum;
  }
}

// The states of all pieces of a cut head, merged in their order. One thread per candidate.
struct head_join_params {
  head_params head;
  std::int32_t* fault;  // becomes the first rank that read another row than rank 0
  int held;             // pieces of a rank
};
UNMASK_KERNEL void head_join_kernel(head_join_params join) {
  const head_params& p = join.head;
  const int c = static_cast<int>(block_index() * block_size() + thread_index());
  if (c >= p.candidates.count) return;
  head_state all = p.partial[c];
  for (int i = 1; i < p.pieces; ++i) {
    const head_state& next = p.partial[static_cast<std::int64_t>(i) * p.candidates.count + c];
    if (next.row_sum != p.partial[c].row_sum) *join.fault = i / join.held;
    all = merge_states(all, next, p.inverse_temperature, p.wide);
  }
  p.state[c] = all;
  if (p.out.negative_entropy == nullptr) write_result(p, c, all);
}

// Sum over a slice of p_v ln(p_v + 1e-10); the state must be complete. Blocks as for head_chunk.
UNMASK_KERNEL void UNMASK_THREADS(head_threads) head_entropy_kernel(head_params p) {
  const int c = p.first_candidate + static_cast<int>(block_index());
  const int slice = static_cast<int>(block_index_y()) * (head_threads / warp_size) + warp_index();
  if (slice * head_slice >= p.columns) return;
  const float best = p.state[c].best;
  const double total = 1.0 + p.state[c].rest;
  double sum = 0;
  for_each_logit(
      p, p.logit + block_index() * p.logit_stride, slice * head_slice, [&](int, float z) {
        const double gap =
            (static_cast<double>(z) - static_cast<double>(best)) * p.inverse_temperature;
        const double probability = wide_exp(gap, p.wide) / total;
        sum += probability *
               (p.wide ? log(probability + 1e-10)
                       : static_cast<double>(logf(static_cast<float>(probability + 1e-10))));
      });
  sum = warp_sum(sum);
  if (lane_index() == 0) {
    p.entropy[static_cast<std::int64_t>(c) * p.slices + slice] = sum;
  }
}

UNMASK_DEVICE double entropy_of_slices(const head_params& p, int c) {
  double entropy = 0;
  for (int i = 0; i < p.slices; ++i)
    entropy += p.entropy[static_cast<std::int64_t>(c) * p.slices + i];
  return entropy;
}

// With the entropy. One thread per candidate.
UNMASK_KERNEL void head_result_kernel(head_params p) {
  const int c = static_cast<int>(block_index() * block_size() + thread_index());
  if (c >= p.candidates.count) return;
  write_result(p, c, p.state[c]);
  p.out.negative_entropy[c] = static_cast<float>(entropy_of_slices(p, c));
}

// What a piece of a cut head has of it, to [C].
struct head_piece_entropy_params {
  head_params head;
  double* to;
};
UNMASK_KERNEL void head_piece_entropy_kernel(head_piece_entropy_params p) {
  const int c = static_cast<int>(block_index() * block_size() + thread_index());
  if (c < p.head.candidates.count) p.to[c] = entropy_of_slices(p.head, c);
}

// Results with the entropy of all pieces, added in their order. One thread per candidate.
UNMASK_KERNEL void head_join_entropy_kernel(head_params p) {
  const int c = static_cast<int>(block_index() * block_size() + thread_index());
  if (c >= p.candidates.count) return;
  write_result(p, c, p.state[c]);
  double entropy = p.entropy[c];
  for (int i = 1; i < p.pieces; ++i) {
    entropy += p.entropy[static_cast<std::int64_t>(i) * p.candidates.count + c];
  }
  p.out.negative_entropy[c] = static_cast<float>(entropy);
}

// out [rows, V] of the logits of all pieces of a cut head.
struct place_logits_params {
  const float* all;  // of each rank [held, rows, widest], and [rows] sums of the rows it read
  const std::int32_t* first;  // [pieces + 1]
  float* out;
  std::int64_t rows, widest, out_stride;
  std::int32_t* fault;  // becomes the first rank that read another row than rank 0
  int held;             // pieces of a rank
};
// Blocks: rows x pieces.
UNMASK_KERNEL void UNMASK_THREADS(head_threads) place_logits_kernel(place_logits_params p) {
  const std::int64_t row = block_index();
  const int piece = static_cast<int>(block_index_y()), rank = piece / p.held;
  const std::int64_t sums = p.held * p.rows * p.widest;
  const float* of_rank = p.all + rank * (sums + p.rows);
  if (rank > 0 && thread_index() == 0) {
    const auto *mine = reinterpret_cast<const std::uint32_t*>(p.all + sums),
               *other = reinterpret_cast<const std::uint32_t*>(of_rank + sums);
    if (other[row] != mine[row]) *p.fault = rank;
  }
  const float* from = of_rank + (piece % p.held * p.rows + row) * p.widest;
  const int first = p.first[piece], tokens = p.first[piece + 1] - first;
  float* to = p.out + row * p.out_stride + first;
  for (int v = static_cast<int>(thread_index()); v < tokens; v += head_threads) to[v] = from[v];
}

}  // namespace unmask::cuda::UNMASK_TARGET
