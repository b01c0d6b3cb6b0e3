// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A minimal operation: what one looks like (kernels/operation.h).
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// The quota[s] first candidates of each sequence are accepted, whatever their scores.
struct accept_leftmost {
  candidate_set candidates;
  const std::int32_t* quota = nullptr;  // [S]
  std::uint8_t* accept = nullptr;       // [C] set to 0 or 1
};

}  // namespace unmask::op
