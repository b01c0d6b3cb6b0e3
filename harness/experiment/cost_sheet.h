// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The cost model's answers for the published models: expected tokens per second and share of the
// limit by batch and context, and whether the goals of the CUDA backend are met.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/analysis/text_table.h"
#include "harness/profile/cost_model.h"

namespace unmask::inline experiment {

// What a step of a method costs beside the model's own kernels, counted by the emulator in a small
// decoding: kernels that the cost model does not know, copies from the host and fills, host waits,
// bytes of host memory.
struct selection_counts {
  double launches = 0, waits = 0;
  double bus_bytes = 0;  // of one sequence
};
selection_counts count_selection(const std::string& method);

// One goal and what the model says of it.
struct cost_goal {
  std::string what;
  double wanted = 0, found = 0;
  std::string unit;
  bool at_most = false;
  std::string held_back_by;  // the kernels with the most time above their limit
  bool met() const { return at_most ? found <= wanted : found >= wanted; }
};
std::vector<cost_goal> cost_goals(const std::filesystem::path& shapes,
                                  const device_ceilings& device);

// Tables: one per model and method, one of the goals, and the kernels of some steps.
std::vector<text_table> cost_sheet(const std::filesystem::path& shapes,
                                   const device_ceilings& device);

}  // namespace unmask::experiment
