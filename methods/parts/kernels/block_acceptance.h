// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LMDeploy's "sequential" rule. accept [C] uint8 is set to 0 or 1 for every candidate.
#pragma once

#include "kernels/operation.h"

namespace unmask {

namespace op {

// Positions first .. first + quota[s] - 1 (modulo the block) from the first candidate of the
// block [block_begin[s], block_begin[s] + block), masked ones only (LMDeploy "sequential").
struct accept_sequential {
  candidate_set candidates;
  const std::int32_t* block_begin = nullptr;
  std::int32_t block = 0;
  const std::int32_t* quota = nullptr;
  std::uint8_t* accept = nullptr;
};

}  // namespace op
}  // namespace unmask
