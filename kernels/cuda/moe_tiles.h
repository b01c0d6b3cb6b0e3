// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The tiles of the experts' products (moe_kernels.h, moe_tensor_kernels.h), which the cost model counts
// too.
#pragma once

#include <cstdint>

namespace unmask::cuda {

// A block's assignments (also on CUDA cores), columns and k of a step by mma.sync.
constexpr int routed_rows = 64, routed_columns = 256, routed_depth = 32;
// By wgmma.
constexpr int wide_rows = 144, wide_columns = routed_columns;

// Whether a GPU with wgmma uses it: an expert has 96 assignments on average, which fill two thirds of
// a tile.
constexpr bool takes_wide_tiles(std::int64_t assignments, std::int64_t experts) {
  return assignments >= 96 * experts;
}

}  // namespace unmask::cuda
