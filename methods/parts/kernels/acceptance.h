// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Two decision rules: Fast-dLLM's factor and Dream's draws without replacement. accept [C] uint8 is
// set to 0 or 1 for every candidate.
#pragma once

#include "kernels/operation.h"

namespace unmask {

namespace op {

// Fast-dLLM's factor rule: sorted descending c_1.., thr_n = 1 - factor / (n + 1), thr_1 = -1;
// accept the leading run that passes; when t == 0 or t == m - 1 one more. `behind` [S]: so many more
// are at the end of that list, count in m and never pass; null: none.
struct accept_factor {
  candidate_set candidates;
  const float* score = nullptr;
  float factor = 0;
  std::uint8_t* accept = nullptr;
  const std::int32_t* behind = nullptr;
};

// score[c] = score[c] / temperature - ln(-ln u): its top-n is a draw without replacement from
// softmax(score / temperature) (Dream's alg_temp).
struct gumbel_scores {
  candidate_set candidates;
  noise_source noise;
  float temperature = 0;
  float* score = nullptr;
};

}  // namespace op
}  // namespace unmask
