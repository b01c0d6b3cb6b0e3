// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The tiles of the gated product of few rows (few_rows_kernels.h), which the cost model counts too.
#pragma once

#include <cstdint>

namespace unmask::cuda {

// Columns of y that a block computes, from as many of the gate and of up; k of a step.
constexpr int few_columns = 96, few_depth = 64;
// More rows go to the library: their sums would not fit the registers, and two blocks with the same weights
// would take more from L2 than it gives in the time that device memory needs for the weights.
constexpr int few_most_rows = 192;

// Rows of a block's tile, which holds all rows of x.
constexpr int few_tile_rows(std::int64_t rows) {
  return rows <= 64 ? 64 : few_most_rows;
}
// Steps of k that shared memory holds.
constexpr int few_stages(int tile_rows) {
  return tile_rows == 64 ? 6 : 4;
}

constexpr std::int64_t few_blocks(std::int64_t columns) {
  return (columns + few_columns - 1) / few_columns;
}
// Whether the blocks take 85 % of the multiprocessors in all their waves: each of them then reads about the
// same share of the weights.
constexpr bool few_rows_fill(std::int64_t columns, std::int64_t multiprocessors) {
  const std::int64_t blocks = few_blocks(columns);
  const std::int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  return blocks * 20 >= waves * multiprocessors * 17;
}

}  // namespace unmask::cuda
