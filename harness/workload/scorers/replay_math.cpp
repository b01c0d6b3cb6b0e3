// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/replay_cases.h"

namespace unmask::scorers {

replay_function find_math_replay(std::string_view) {
  return nullptr;
}

}  // namespace unmask::scorers
