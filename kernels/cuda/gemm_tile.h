// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The exact matrix product: y[i, n] = sum_k x[row(i), k] W[n, k] on CUDA cores, weights float32 or
// bfloat16, activations and sums float32; or both int8, four k in a word, and sums int32. Every
// element is one chain of multiply-adds in the order of k, whatever the tile, the other rows and
// the size of the batch: rows have the same bits alone and in any batch, which no library promises.
// float32 weights always take this path; bfloat16 and int8 weights take cuBLASLt and tensor cores
// unless asked otherwise (see ops/gemm.cu).
//
// A block computes (16 * per_thread) x 64 elements with 256 threads, each per_thread x 4 of them,
// from tiles of 16 k (16 words of int8) in shared memory, stored k-major so that a warp reads whole
// lines.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/portable.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int gemm_threads = 256;
constexpr int gemm_columns = 64;  // of y per block
constexpr int gemm_depth = 16;    // k, or words of int8, per tile
constexpr int gemm_pitch = 4;     // elements between tile rows beyond their width
constexpr std::size_t gemm_shared_bytes(int per_thread) {
  return sizeof(float) * gemm_depth *
         static_cast<std::size_t>(16 * per_thread + gemm_columns + 2 * gemm_pitch);
}

using int8_word = std::int32_t;  // four levels, the first in the lowest byte
// What a tile multiplies and sums: float, or words of int8.
template <class weight_type>
using tile_number = std::conditional_t<std::is_same_v<weight_type, int8_word>, int8_word, float>;
static_assert(sizeof(int8_word) == sizeof(float), "gemm_shared_bytes");

UNMASK_DEVICE float weight_value(const float* w, std::int64_t i) {
  return w[i];
}
UNMASK_DEVICE float weight_value(const std::uint16_t* w, std::int64_t i) {
  return bf16_to_float(w[i]);
}
UNMASK_DEVICE int8_word weight_value(const int8_word* w, std::int64_t i) {
  return w[i];
}
UNMASK_DEVICE void multiply_add(float& sum, float x, float w) {
  sum = fused_multiply_add(x, w, sum);
}
UNMASK_DEVICE void multiply_add(std::int32_t& sum, int8_word x, int8_word w) {
  sum = dot_int8(x, w, sum);
}

// sum[i][j] of rows first_row + 16 i' ... of one tile. `row_of(m)` points to the activations of
// tile row m, or null; `columns` weight rows are valid.
template <int per_thread, class weight_type, class row_function>
UNMASK_DEVICE void gemm_tile(const row_function& row_of, const weight_type* w, int columns,
                             int depth, tile_number<weight_type> (&sum)[per_thread][4]) {
  using number = tile_number<weight_type>;
  constexpr int tile_rows = 16 * per_thread;
  constexpr int a_pitch = tile_rows + gemm_pitch, b_pitch = gemm_columns + gemm_pitch;
  shared_allocator shared;
  const shared_array<number> a = shared.take<number>(gemm_depth * a_pitch);
  const shared_array<number> b = shared.take<number>(gemm_depth * b_pitch);
  const int t = static_cast<int>(thread_index());
  const int row = t / 4, k_first = t % 4 * 4;  // what this thread loads
  const number* x_row = row < tile_rows ? row_of(row) : nullptr;
  const weight_type* w_row = row < columns ? w + static_cast<std::int64_t>(row) * depth : nullptr;
  const int m_first = t / 16 * per_thread, n_first = t % 16 * 4;  // what it computes
#pragma unroll
  for (int i = 0; i < per_thread; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i][j] = 0;
  }
  for (int base = 0; base < depth; base += gemm_depth) {
    sync_block();  // the last tile has been read
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int k = base + k_first + i;
      if (row < tile_rows) {
        a[(k_first + i) * a_pitch + row] = x_row != nullptr && k < depth ? x_row[k] : number{};
      }
      b[(k_first + i) * b_pitch + row] =
          w_row != nullptr && k < depth ? weight_value(w_row, k) : number{};
    }
    sync_block();
#pragma unroll
    for (int k = 0; k < gemm_depth; ++k) {
      number x[per_thread], y[4];
#pragma unroll
      for (int i = 0; i < per_thread; ++i) x[i] = a[k * a_pitch + m_first + i];
#pragma unroll
      for (int j = 0; j < 4; ++j) y[j] = b[k * b_pitch + n_first + j];
#pragma unroll
      for (int i = 0; i < per_thread; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) multiply_add(sum[i][j], x[i], y[j]);
      }
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
