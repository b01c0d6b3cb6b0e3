// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the cost model expects of kernels that no card has measured (kernels/cuda/README.md).
#pragma once

#include <filesystem>

#include "harness/rows/text_table.h"
#include "tests/cost_model/cost_model.h"

namespace unmask {

// What was measured of the kernels before, what the model says of both, and whether what is wanted is met.
text_table cost_newer(const std::filesystem::path& shapes, const device_ceilings& device);

}  // namespace unmask
