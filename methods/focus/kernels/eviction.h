// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which rows FOCUS drops after its first layers, and whose K/V a delayed cache may keep. Token
// states: masked 0, decided 1, cached 2 (token_state.h).
#pragma once

#include "kernels/operation.h"

namespace unmask {

// Which masked rows survive an eviction (FOCUS section 4.2), per sequence over its candidates.
struct retain_params {
  const std::int32_t* target = nullptr;     // [S] tokens wanted; 0: everything is kept
  const std::int32_t* processed = nullptr;  // [S] one past the last position kept so far
  bool by_deviation = true;  // also all with score >= [mean +] deviation, when they are >= target
  bool add_mean = true;      // threshold mean + deviation; false: deviation alone
  std::int32_t ddof = 0;     // deviation divides by n - ddof
  bool keep_predecessors = true;  // the candidate directly before a chosen one stays
  bool adjacent_rows = false;     // "directly before" counts rows of the forward, not positions
  bool keep_unprocessed = true;   // candidates in [processed, last kept) stay: their K/V is missing
};

namespace op {

// flags[s, p] = 1 where the K/V of p, computed from these states, is final: p in [first, last),
// one block, is not masked and, with right_neighbour, p is the last or p + 1 is not masked.
struct mark_kv_final {
  std::int32_t sequences = 0;
  tensor_view state;
  const std::int32_t* first = nullptr;
  const std::int32_t* last = nullptr;
  bool right_neighbour = false;
  tensor_view flags;
};

// accept = the candidates that stay: top target by score or those beyond the deviation, then
// predecessors, then unprocessed ones before the last kept; see retain_params.
struct retain {
  candidate_set candidates;
  const float* score = nullptr;
  retain_params params;
  std::uint8_t* accept = nullptr;
};

// Drop the rows of refused candidates: kept[i] = index of the i-th surviving row; begin [S+1],
// sequence and position describe the survivors and may be the arrays of `rows`. Returns their
// number.
struct drop_rows {
  using result = std::int32_t;
  row_set rows;
  candidate_set candidates;
  const std::uint8_t* accept = nullptr;
  std::int32_t* begin = nullptr;
  std::int32_t* sequence = nullptr;
  std::int32_t* position = nullptr;
  std::int32_t* kept = nullptr;
};

}  // namespace op
}  // namespace unmask
