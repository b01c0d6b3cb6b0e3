// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions that a file or published statistics impose on computed layers
// (harness/engine/trajectory.h), as far as policies have to know of them.
#pragma once

#include <cstdint>
#include <functional>

#include "harness/decode/batch.h"

namespace unmask {

// When a position of place s will be decided: smaller is sooner, equal is in the same step.
using decision_order =
    std::function<std::int32_t(const batch& b, std::int32_t s, std::int32_t position)>;

// A row policy that drops rows by scores of activations derives from this too. It computes its
// scores as always and then ranks by the order it was given: scores of weights without meaning
// would drop the very rows that are to be decided, and what a step commits would be chance again.
class ranked_by_activations {
 public:
  virtual ~ranked_by_activations() = default;
  virtual void rank_by(decision_order order) = 0;
};

}  // namespace unmask
