// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions of a rule that takes many masks at once and masks doubtful tokens again.
#pragma once

#include "kernels/decisions.h"

namespace unmask::op {

// What logits say about each candidate: of a mask its arg-max (the lowest of equals) and that token's
// probability, of a decided position its present token and the probability of that. logits [C, V]
// float32, softmax in float64; canvas [S, length] int32, state [S, length] uint8 token_state.
struct confidence_of_present {
  candidate_set candidates;
  tensor_view logits;
  tensor_view canvas;
  tensor_view state;
  std::int32_t* token = nullptr;
  float* probability = nullptr;
};

// Per sequence with n masks among its candidates: of those with probability > threshold (`strict`; else
// >=) the cap best are taken, cap = min(max(int(share n), least_cap), most_cap); where fewer than
// `least` pass, the `least` best. Of the decided candidates with probability < threshold_back the
// lowest are reopened: with `by_earlier` at most one less than the sequence's step before took
// (first_allowance in a step with restart[s]), and none where this step takes one only; else as many
// as this step takes beyond `least`. taken [S]: what the step before took, then what this one takes;
// a sequence without candidates keeps its number.
struct accept_and_reopen {
  candidate_set candidates;
  tensor_view state;
  const float* probability = nullptr;
  float threshold = 0, threshold_back = 0;
  bool strict = true;
  bool by_earlier = true;
  double share = 0;
  std::int32_t least_cap = 0, most_cap = 0, least = 1;
  std::int32_t first_allowance = 0;
  const std::int32_t* restart = nullptr;  // [S] not 0: the first step of a block
  std::int32_t* taken = nullptr;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
