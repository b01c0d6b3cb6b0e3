// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How many candidates are decided together under a bound on their entropies.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Candidates in descending order of score (ties: the lowest index first) with entropies h_1, h_2, ...
// in nats, h = max(-negative_entropy, 0): the longest run of the first whose sum of entropies
// without one of them is at most `bound`. Left out is the largest (`without_largest`), or the last.
// At least `minimum` are accepted, 1 or more, and all where there are fewer. Sums in float64. A
// score of -infinity or NaN is never accepted.
struct accept_entropy_bound {
  candidate_set candidates;
  const float* score = nullptr;
  const float* negative_entropy = nullptr;
  float bound = 0;
  bool without_largest = true;
  std::int32_t minimum = 1;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
