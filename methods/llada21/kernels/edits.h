// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions on a block whose decided tokens are up for another one (LLaDA2.1).
#pragma once

#include "kernels/decisions.h"

namespace unmask::op {

// score[c] = probability[c] of a mask, -infinity of a decided position, so that rules for masks pass
// over the others. state [S, length] uint8 token_state.
struct score_masks {
  candidate_set candidates;
  tensor_view state;
  const float* probability = nullptr;
  float* score = nullptr;
};

// accept[c] of every decided position is set to replace where the token proposed for it is another
// than its own and probability[c] > threshold, else to keep; that of masks is left as it is.
// canvas [S, length] int32, state [S, length] uint8 token_state.
struct accept_edits {
  candidate_set candidates;
  tensor_view canvas;
  tensor_view state;
  const std::int32_t* token = nullptr;
  const float* probability = nullptr;
  float threshold = 0;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
