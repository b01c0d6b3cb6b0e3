// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's decision, which looks back over several steps, and the states of its cache.
#pragma once

#include "kernels/operation.h"

namespace unmask {

// How backend::accept_two_centroids tells a settled token from an unsettled one. v is the token's own
// history row, high and boundary are the two centroids.
enum class freeze_rule : std::uint8_t {
  squared_euclidean,  // |v - high|^2 < |v - boundary|^2 (Ada-DLM eqs. 8-10)
  manhattan,          // |v - high|_1 < |v - boundary|_1
  cosine,             // cos(v, high) > cos(v, boundary); the cosine with a zero row is 0
  moving_average,  // mean(v) > (mean(high) + mean(boundary)) / 2, or > threshold when that is > 0
  threshold        // v[0] > threshold (Fast-dLLM)
};

// Cosines closer than this are equal: rows that are multiples of each other differ by rounding.
inline constexpr double cosine_tie = 1e-12;

struct freeze_params {
  freeze_rule rule = freeze_rule::squared_euclidean;
  bool clamp_weights = false;  // squared_euclidean: negative components of high - boundary count 0
  bool tier_mean = false;      // centroids: means of ranks 1..K and K+1..2K instead of one token
  // At most K candidates: all that floor and limit allow freeze. Nothing to rules that count no ranks:
  // freeze_rule::threshold, and moving_average above a threshold.
  bool all_when_short = false;
  bool always_best = true;  // nothing froze: the candidate of highest confidence does
  bool rank_all = false;    // rank every position of the scope, decided ones with the row they
                            // froze with; needs first and last
  float threshold = 0;
  float floor = 0;                      // a confidence below it never freezes (always_best may)
  const std::int32_t* first = nullptr;  // [S] scope [first[s], last[s]): candidates outside are
  const std::int32_t* last = nullptr;   // [S] neither ranked nor accepted; null: every candidate
  const std::int32_t* limit = nullptr;  // [S] at most this many freeze, the most confident of them
  // [S, 2, m] centroids are the traces of ranks 1 and K + 1, newest first, and not the rows of the
  // tokens there now: both move one place back and take the newest confidences in front, if there is
  // more than one rank. Does not combine with tier_mean. null: rows.
  float* trace = nullptr;
};

// Token states of a cache that stores a decided token's K/V one forward late.
struct delayed_cache_params {
  std::uint8_t masked = 0, decoded = 1, cached = 2;
  bool delay = true;     // a decided token is computed once more, with its own id
  bool shifted = false;  // row p - 1 predicts position p
};

namespace op {

// history [S, length, m] float32, newest first: a candidate at position p of sequence s moves its
// row one place back and puts score in front. replicate: a row whose newest entry is 0 (never
// scored) is filled with score instead.
struct push_history {
  candidate_set candidates;
  const float* score = nullptr;
  bool replicate = false;
  tensor_view history;
};

// Ada-DLM (eqs. 6-10, Algorithm 1) on the history that push_history keeps. Per sequence: rank the
// candidates by newest confidence, descending; high is the row of rank 1, boundary that of rank
// K + 1 with K = clamp(rank[s], 1, candidates - 1); accept what params.rule puts strictly nearer
// to high. rank[s] < 0: every candidate of the scope is accepted. A newest confidence of
// -infinity or NaN is not eligible.
struct accept_two_centroids {
  candidate_set candidates;
  tensor_view history;
  const std::int32_t* rank = nullptr;
  freeze_params params;
  std::uint8_t* accept = nullptr;
};

// The rows that such a cache computes next: for p in [first[s], last[s]) flags[s, p] = 1 where
// the position is masked, or decided and not yet cached (delay), or predicts a masked position p
// + 1 < last[s] (shifted), or whole[s] is set; 0 elsewhere. Then every decoded position of the
// range becomes cached. state, flags [S, length] uint8.
struct advance_delayed_cache {
  tensor_view state;
  delayed_cache_params params;
  const std::int32_t* first = nullptr;
  const std::int32_t* last = nullptr;
  const std::uint8_t* whole = nullptr;
  tensor_view flags;
};

}  // namespace op
}  // namespace unmask
