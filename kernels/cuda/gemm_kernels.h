// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Dense products by the exact tile, the rounding that comes before the library's, and what becomes
// of int32 sums.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/gemm_tile.h"
#include "kernels/cuda/int8_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

// Where sums go: y = or += sum + bias.
struct gemm_result {
  const float* bias;  // [columns] or null
  float* y;           // [rows, columns]
  std::int64_t y_stride;
  bool accumulate;
};

// `number`: float, or double, which is rounded at the end.
template <class number>
UNMASK_DEVICE void write_result(const gemm_result& to, std::int64_t row, int n, number value) {
  float* y = to.y + row * to.y_stride + n;
  if (to.bias != nullptr) value += to.bias[n];
  *y = static_cast<float>(to.accumulate ? *y + value : value);
}

struct gemm_params {
  const void* x;  // float, or words of int8
  std::int64_t x_stride;
  const std::int32_t* index;  // [rows] or null: row i; null with int8
  const void* w;              // [columns, depth]
  gemm_result to;
  int rows, columns, depth;  // depth in elements, or words of int8
  int8_scales scale = {};    // int8
};

UNMASK_DEVICE float scaled_sum(const gemm_params&, std::int64_t, int, float sum) {
  return sum;
}
UNMASK_DEVICE double scaled_sum(const gemm_params& p, std::int64_t row, int n, std::int32_t sum) {
  return int8_product(sum, p.scale.x[row], p.scale.w[n]);
}

// Blocks that a multiprocessor must have room for; 0: the compiler's choice, which for the int8
// tile is so many that registers spill.
template <class weight_type>
constexpr int gemm_blocks = std::is_same_v<weight_type, int8_word> ? 4 : 0;

// Blocks: tiles of columns x tiles of rows.
template <int per_thread, class weight_type>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(gemm_threads, gemm_blocks<weight_type>)
    gemm_kernel(gemm_params p) {
  using number = tile_number<weight_type>;
  constexpr int tile_rows = 16 * per_thread;
  const int first_row = static_cast<int>(block_index_y()) * tile_rows;
  const int first_column = static_cast<int>(block_index()) * gemm_columns;
  const auto row_of = [&](int m) -> const number* {
    const int i = first_row + m;
    if (i >= p.rows) return nullptr;
    return static_cast<const number*>(p.x) + (p.index != nullptr ? p.index[i] : i) * p.x_stride;
  };
  number sum[per_thread][4];
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
      if (n < p.columns) write_result(p.to, row, n, scaled_sum(p, row, n, sum[i][j]));
    }
  }
}

struct scale_sums_params {
  const std::int32_t* sum;  // [rows, sum_stride]
  std::int64_t sum_stride;
  gemm_result to;
  int columns;
  int8_scales scale;
};

// What gemm_kernel does with the same sums. Blocks: rows x pieces of a row.
UNMASK_KERNEL void UNMASK_THREADS(gemm_threads) scale_sums_kernel(scale_sums_params p) {
  const std::int64_t row = block_index();
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int n = static_cast<int>(block_index_y() * block_size() + thread_index()); n < p.columns;
       n += step) {
    const std::int32_t sum = p.sum[row * p.sum_stride + n];
    write_result(p.to, row, n, int8_product(sum, p.scale.x[row], p.scale.w[n]));
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
