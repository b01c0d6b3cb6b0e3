// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are decided, and what happens to those that are. accept [C] uint8 holds one
// `decision` for every candidate; rules that only keep or take write 0 and 1.
#pragma once

#include "kernels/host_device.h"
#include "kernels/operation.h"
#include "kernels/token_state.h"

namespace unmask {

// What a step does with a candidate.
enum decision : std::uint8_t {
  decision_keep = 0,     // it stays as it is
  decision_take = 1,     // a mask gets its token and is decided
  decision_replace = 2,  // a decided position gets another token and stays decided
  decision_reopen = 3,   // a decided position becomes a mask again
  decision_hold = 4      // a mask is decided and its token kept, but the canvas keeps the mask
};

// Whether it gives a mask its token.
UNMASK_HOST_DEVICE constexpr bool decides_mask(std::uint8_t what) {
  return what == decision_take || what == decision_hold;
}

// Numbers of decisions of each kind, [S] each; null: that kind does not come up.
struct decision_counts {
  std::int32_t* taken = nullptr;  // or held
  std::int32_t* replaced = nullptr;
  std::int32_t* reopened = nullptr;
  std::int32_t* refused = nullptr;  // takes of what is no mask, changes of what is not decided
};

namespace op {

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

// Carries out decisions and adds their numbers to `counts`. canvas [S, length] int32, state
// [S, length] uint8 token_state. Take: canvas = token, state = decoded. Replace: canvas = token.
// Reopen: canvas = mask_token, state = masked. Hold: held = token, state = decoded. A decision that
// does not fit the state of its position changes nothing and is counted as refused, as is a hold
// where nothing holds. A taken or held
// token equal to mask_id leaves its position masked and is not counted (loops that recognise a mask
// by its id); mask_id -1: the state array alone decides.
struct commit {
  candidate_set candidates;
  const std::int32_t* token = nullptr;
  const std::uint8_t* accept = nullptr;
  std::int32_t mask_id = -1;
  std::int32_t mask_token = 0;
  tensor_view canvas;
  tensor_view state;
  tensor_view held;  // [S, length] int32; no data: nothing is held
  decision_counts counts;
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

}  // namespace op
}  // namespace unmask
