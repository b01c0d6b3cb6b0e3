// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The tiles of products of few rows (few_rows_kernels.h, few_parts_kernels.h), which the cost model counts too.
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

// Whether so many blocks, one a multiprocessor, take 85 % of the multiprocessors in all their waves: each of
// them then reads about the same share of the weights.
constexpr bool few_blocks_fill(std::int64_t blocks, std::int64_t multiprocessors) {
  const std::int64_t waves = (blocks + multiprocessors - 1) / multiprocessors;
  return blocks * 20 >= waves * multiprocessors * 17;
}
constexpr std::int64_t few_blocks(std::int64_t columns) {
  return (columns + few_columns - 1) / few_columns;
}
constexpr bool few_rows_fill(std::int64_t columns, std::int64_t multiprocessors) {
  return few_blocks_fill(few_blocks(columns), multiprocessors);
}

// Parts of k, one for each block of a cluster. Twice the parts, and tiles of twice the width, read x half as
// often from L2, and exchange twice the sums. That pays if k is long.
constexpr int few_parts(std::int64_t columns, std::int64_t depth) {
  return depth >= 2 * columns ? 8 : 4;
}
// Columns of y that a cluster computes.
constexpr int few_parts_columns(int parts) {
  return 32 * parts;
}
constexpr int few_parts_stages(int tile_rows, int parts) {
  if (parts == 8) return tile_rows == 64 ? 5 : 4;
  return tile_rows == 64 ? 6 : 5;
}
constexpr std::int64_t few_parts_blocks(std::int64_t columns, int parts) {
  const int each = few_parts_columns(parts);
  return (columns + each - 1) / each * parts;
}
// Whether clusters take such a matrix: each part has a step of k at least, and their blocks fill the card.
constexpr bool few_parts_fill(std::int64_t columns, std::int64_t depth,
                              std::int64_t multiprocessors) {
  const int parts = few_parts(columns, depth);
  return depth >= std::int64_t{parts} * few_depth &&
         few_blocks_fill(few_parts_blocks(columns, parts), multiprocessors);
}

}  // namespace unmask::cuda
