// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The cost model's answers for the published models: expected tokens per second and share of the
// limit by batch and context, and whether the goals of the CUDA backend are met.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/rows/text_table.h"
#include "tests/cost_model/cost_model.h"

namespace unmask {

// What a step of a method costs beside the model's own kernels, counted by the emulator in a small
// decoding: kernels that the cost model does not know, copies from the host and fills, host waits,
// bytes of host memory.
struct selection_counts {
  double launches = 0, waits = 0;
  double bus_bytes = 0;  // of one sequence
};
selection_counts count_selection(const std::string& method);

// The goals of the CUDA backend, whether the model meets them, and of each that is a share of the
// limit the kernels with the most time above theirs.
text_table cost_goals(const std::filesystem::path& shapes, const device_ceilings& device);

// What sums over ranks take of a step of SDAR-8B that computes whole blocks, by batch and number of ranks: with
// the device's own links, and with those of a card on PCIe 4.
text_table cost_sums(const std::filesystem::path& shapes, const device_ceilings& device);

// Tables: one per model and method, the kernels of some steps, and last the goals, which are of one
// GPU. Of several ranks: what each of as many GPUs takes, and last the models that cannot be dealt to
// so many.
std::vector<text_table> cost_sheet(const std::filesystem::path& shapes,
                                   const device_ceilings& device, int ranks = 1);

}  // namespace unmask
