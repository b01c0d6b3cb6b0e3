// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions as events. The step loop makes them for its observer, who looks at no accept byte: the last
// event of a position says what the answer holds there. One without an event holds the mask, or the stop
// that a loop writes behind an answer that has ended.
#pragma once

#include <cstdint>

#include "kernels/decisions.h"

namespace unmask {

// What a step did to one position.
struct decision_event {
  std::int32_t sequence = 0;  // its place in the batch
  std::int32_t position = 0;  // of the sequence, its prompt counted
  std::int32_t token = -1;    // the token after it, a held one too; -1: none, it was reopened
  std::uint8_t what = decision_take;  // decision_take, _replace, _reopen or _hold
  float confidence = 0;               // that the rule decided with
  bool operator==(const decision_event&) const = default;
};

}  // namespace unmask
