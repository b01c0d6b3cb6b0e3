// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The best candidate of every run of neighbours.
#pragma once

#include "kernels/operation.h"

namespace unmask::op {

// A run is a longest stretch of candidates at adjacent positions. Of each run the candidates of
// highest score are accepted, all that are equal, where that score is > above. A score of -infinity
// or NaN is never accepted and still joins its neighbours.
struct accept_run_best {
  candidate_set candidates;
  const float* score = nullptr;
  float above = 0;
  std::uint8_t* accept = nullptr;
};

}  // namespace unmask::op
