// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One threshold in several blocks of one forward.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// Candidates of each sequence fall into blocks of `block` positions from origin[s] on. Every candidate
// with probability > threshold is accepted; in a block b with forced[s, b] != 0 of which none passes, the
// one of highest score (the lowest position of equals). forced [S, blocks] uint8.
struct accept_in_blocks {
  candidate_set candidates;
  const float* probability = nullptr;
  const float* score = nullptr;
  float threshold = 0;
  std::int32_t block = 1;
  const std::int32_t* origin = nullptr;
  tensor_view forced;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
