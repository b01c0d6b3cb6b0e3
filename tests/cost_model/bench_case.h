// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the model expects of a case of unmask_bench: calls of one operation in a row, which the host
// launches one by one, without graphs.
#pragma once

#include <optional>
#include <string>

#include "harness/devices/ceilings.h"

namespace unmask::cost {

struct expected_case {
  double seconds = 0;
  std::string held_by;
};

// `name` as --benchmark_list_tests prints it: "cuda_linear/rows:32/in:4096/out:6144/bits:16", with or
// without its backend's prefix. Nothing: the model has no kernel for it, or not in this type.
// std::out_of_range: an argument is missing. newer: of kernels that no card has measured yet: attention
// of many rows, by clusters or that merges its parts in the same launch, the fold of the head, and of many candidates
// its product too, experts' results, gate and up of few rows, and their products into the residual stream.
std::optional<expected_case> expected_of_case(const std::string& name, const device_ceilings& d,
                                              bool newer = false);

}  // namespace unmask::cost
