// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Credit of tokens that were the favourites of a position in earlier forwards.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Per candidate, at place j = position - first[s] of its sequence, a list of (token, credit):
//   credits fade: credit *= decay; with fresh[s] the list is emptied instead;
//   the token of the largest logit gets p^exponent, p its softmax probability (a new entry, or added);
//   f = logits + alpha ln(1 + credit);
//   token = arg-max of f (the lowest of equals), probability = softmax(f)[token], score the same, or
//   -infinity where the token is `refused`.
// logits [C, V] float32. listed [S, J] int32 entries in use, tokens and credits [S, J, K] int32 and
// float32; a list that is full takes no new token. alpha >= 0. Sums over the vocabulary in float64.
struct credited_confidence {
  candidate_set candidates;
  tensor_view logits;
  const std::int32_t* first = nullptr;  // [S]
  const std::int32_t* fresh = nullptr;  // [S] not 0: the first forward of its block
  float alpha = 0, exponent = 0, decay = 0;
  std::int32_t refused = -1;
  tensor_view listed, tokens, credits;
  std::int32_t* token = nullptr;
  float* probability = nullptr;
  float* score = nullptr;
};

// Every candidate with score >= min(best of its sequence - slack, threshold), in float32: all that
// pass the threshold, or else the best and those within `slack` of it. A score of -infinity or NaN is
// never accepted.
struct accept_near_best {
  candidate_set candidates;
  const float* score = nullptr;
  float threshold = 0;
  float slack = 0;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
