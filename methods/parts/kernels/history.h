// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Distributions of positions from one forward to the next: how far each has moved, and who is decided
// because it stands still.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Finds for each candidate the arg-max of its logits, its probability under the softmax p, and how
// far p has moved from q, the distribution that its place holds:
//   moved[c] = sum_v p_v (ln(p_v + epsilon) - ln(q_v + epsilon)), in nats, in float64;
//   q = 0 where the place holds nothing of this position, or fresh[s];
// then the place holds p. Its place is (position - origin[s]) mod P. `still` counts how often in a
// row a place moved less than `limit` (strict); it begins with `still_before`. settled[c] = 1 where
// that is at least `history`.
//
// logits [C, V] float32. owner [S, P] and still [S, P] int32, kept [S, P, V] and scale [S, P, 2]
// float32 (the logits, and the two halves of the logarithm of their sum).
struct compare_distributions {
  candidate_set candidates;
  tensor_view logits;
  const std::int32_t* origin = nullptr;  // [S]
  const std::int32_t* fresh = nullptr;   // [S] not 0: nothing is held of this sequence
  double epsilon = 0;
  float limit = 0;
  std::int32_t history = 1, still_before = 0;
  tensor_view owner, still, kept, scale;
  std::int32_t* token = nullptr;
  float* probability = nullptr;
  float* doubt = nullptr;  // [C] -(1 - probability), exact where the probability rounds to 1
  float* moved = nullptr;
  std::uint8_t* settled = nullptr;
};

// Which of the ready candidates are decided.
enum class ready_choice : std::uint8_t { all, surest, stillest };

// Candidates before last[s] take part. Ready are those that are settled and whose probability is >
// threshold (`strict`) or >= threshold, where allowed[s] is not 0. Ready ones are decided: all, the one of
// largest `doubt`, or the one that moved least. Where none is ready the min(quota[s], at_most)
// candidates of largest `doubt` are.
struct accept_settled {
  candidate_set candidates;
  const std::int32_t* last = nullptr;     // [S]
  const std::int32_t* allowed = nullptr;  // [S]
  const float* probability = nullptr;
  const float* doubt = nullptr;
  const float* moved = nullptr;
  const std::uint8_t* settled = nullptr;
  float threshold = 0;
  bool strict = true;
  ready_choice choice = ready_choice::all;
  const std::int32_t* quota = nullptr;  // [S]
  std::int32_t at_most = 0;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
