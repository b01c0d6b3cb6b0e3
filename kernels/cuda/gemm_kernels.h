// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Dense products by the exact tile, and the rounding that comes before the library's.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/gemm_tile.h"

namespace unmask::cuda::UNMASK_TARGET {

struct gemm_params {
  const float* x;
  std::int64_t x_stride;
  const std::int32_t* index;  // [rows] or null: row i
  const void* w;              // [columns, depth]
  const float* bias;          // [columns] or null
  float* y;                   // [rows, columns]
  std::int64_t y_stride;
  int rows, columns, depth;
  bool accumulate;
};

// Blocks: tiles of columns x tiles of rows.
template <int per_thread, class weight_type>
UNMASK_KERNEL void UNMASK_THREADS(gemm_threads) gemm_kernel(gemm_params p) {
  constexpr int tile_rows = 16 * per_thread;
  const int first_row = static_cast<int>(block_index_y()) * tile_rows;
  const int first_column = static_cast<int>(block_index()) * gemm_columns;
  const auto row_of = [&](int m) -> const float* {
    const int i = first_row + m;
    if (i >= p.rows) return nullptr;
    return p.x + (p.index != nullptr ? p.index[i] : i) * p.x_stride;
  };
  float sum[per_thread][4];
  gemm_tile<per_thread>(
      row_of,
      static_cast<const weight_type*>(p.w) + static_cast<std::int64_t>(first_column) * p.depth,
      p.columns - first_column, p.depth, sum);
  const int t = static_cast<int>(thread_index());
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
    const int row = first_row + t / 16 * per_thread + i;
    if (row >= p.rows) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int n = first_column + t % 16 * 4 + j;
      if (n >= p.columns) continue;
      float* y = p.y + row * p.y_stride + n;
      float value = sum[i][j];
      if (p.bias != nullptr) value += p.bias[n];
      *y = p.accumulate ? *y + value : value;
    }
  }
}

struct to_bf16_params {
  const void* x;
  dtype type;
  std::int64_t x_stride;
  const std::int32_t* index;  // [rows] or null
  std::uint16_t* out;         // [rows, width]
  int width;
};

// out[i] = x[row(i)] rounded to bfloat16, for tensor cores.
UNMASK_KERNEL void to_bf16_kernel(to_bf16_params p) {
  const std::int64_t i = block_index();
  const std::int64_t from = (p.index != nullptr ? p.index[i] : i) * p.x_stride;
  for (int d = static_cast<int>(thread_index()); d < p.width; d += static_cast<int>(block_size())) {
    p.out[i * p.width + d] = bf16_of(load_float(p.x, p.type, from + d));
  }
}

struct to_f32_params {
  const std::uint16_t* x;  // bfloat16
  std::int64_t x_stride;
  float* out;  // [rows, width]
  int width;
};

// The other way, for exact tiles.
UNMASK_KERNEL void to_f32_kernel(to_f32_params p) {
  const std::int64_t i = block_index();
  for (int d = static_cast<int>(thread_index()); d < p.width; d += static_cast<int>(block_size())) {
    p.out[i * p.width + d] = bf16_to_float(p.x[i * p.x_stride + d]);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
