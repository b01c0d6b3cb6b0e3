// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are decided, and what happens to those that are. accept [C] uint8 is set to 0 or
// 1 for every candidate.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// The quota[s] candidates of highest score (all when fewer).
struct accept_top {
  candidate_set candidates;
  const float* score = nullptr;
  const std::int32_t* quota = nullptr;
  std::uint8_t* accept = nullptr;
};

// Every candidate with score >= threshold (strict: >) and, with always_best, the best one.
struct accept_threshold {
  candidate_set candidates;
  const float* score = nullptr;
  float threshold = 0;
  bool strict = false;
  bool always_best = false;
  std::uint8_t* accept = nullptr;
};

// Two decisions are joined: accept[i] = accept[i] and also[i] with `both`, else accept[i] or
// also[i].
struct merge_accept {
  std::int32_t count = 0;
  const std::uint8_t* also = nullptr;
  bool both = false;
  std::uint8_t* accept = nullptr;
};

// score[c] = uniform draw in (0, 1) (random remasking).
struct uniform_scores {
  candidate_set candidates;
  noise_source noise;
  float* score = nullptr;
};

// Write accepted tokens: canvas[s, position] = token, state[s, position] = decoded_state,
// committed[s] += number accepted. canvas [S, length] int32, state [S, length] uint8. A token
// equal to mask_id leaves its position masked and is not counted (loops that recognise a mask
// by its id); mask_id -1: the state array alone decides.
struct commit {
  candidate_set candidates;
  const std::int32_t* token = nullptr;
  const std::uint8_t* accept = nullptr;
  std::uint8_t decoded_state = 0;
  std::int32_t mask_id = 0;
  tensor_view canvas;
  tensor_view state;
  std::int32_t* committed = nullptr;
};

// out[i] = a wa + b wb in float32 (b null: a wa); out may be a.
struct combine_scores {
  std::int32_t count = 0;
  const float* a = nullptr;
  float wa = 0;
  const float* b = nullptr;
  float wb = 0;
  float* out = nullptr;
};

// Round to bfloat16 (nearest, ties to even) in place.
struct round_bf16 {
  std::int32_t count = 0;
  float* x = nullptr;
};

}  // namespace unmask::op
