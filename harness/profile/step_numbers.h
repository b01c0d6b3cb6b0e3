// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a step of the loop held, for the counter tracks of a trace. The loop gathers it only while
// somebody listens.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/profile/phases.h"

namespace unmask {

struct step_numbers {
  std::int64_t batch = 0;              // sequences that took part
  std::int64_t rows = 0;               // that entered layer 0
  std::int64_t late_rows = 0;          // that reached the last layer
  std::int64_t keys = 0;               // visible slots, summed over the sequences
  std::int64_t kv_bytes = 0;           // of pages in use, all layers
  std::int64_t masked = 0;             // positions still masked, after the step
  std::int64_t committed = 0;          // tokens decided by it
  std::vector<std::int64_t> requests;  // that took part, by number or place
};

// A phase_listener that wants to know.
class step_listener {
 public:
  virtual ~step_listener() = default;
  virtual void step(const step_numbers& held) = 0;
};

// The listener of this thread, if it is one; null: nobody asks.
inline step_listener* current_step_listener() {
  return dynamic_cast<step_listener*>(current_listener());
}

}  // namespace unmask
