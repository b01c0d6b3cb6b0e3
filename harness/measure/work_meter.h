// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <atomic>
#include <cstdint>

namespace unmask {

// What the pass under way has done so far; the code that decodes adds to it.
struct work_meter {
  std::atomic<std::int64_t> items{0};   // answered
  std::atomic<std::int64_t> tokens{0};  // decided
};

}  // namespace unmask
