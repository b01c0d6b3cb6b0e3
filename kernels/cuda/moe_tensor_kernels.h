// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The experts' products on tensor cores (mma.sync, sm_80 and later): bfloat16 weights and
// activations with float32 sums (m16n8k16), or int8 with int32 sums (m16n8k32); results float32.
// Fragments of both have the same bytes, so that everything but the sums is the same: an element
// below is two bytes, one bfloat16 or two int8. One grouped product walks the tiles of (expert,
// rows) that moe_plan_kernel laid out; a block computes 64 assignments x 256 columns with eight
// warps of 32 x 64 elements each, from tiles of 32 k that cp.async brings in two ahead. Fragments of
// 32 x 64 elements are 12 ldmatrix for 32 products, so that tensor cores wait for neither shared
// memory nor instructions. Every element is summed in the order of k whatever the tile's other rows,
// so rows do not depend on the batch.
//
// Shared memory: stages of activations [64, 32] and weights [256, 32], bfloat16, rows of four
// pieces of 16 bytes. Piece c of row r lies at c ^ (r / 2 & 3): the eight rows that one ldmatrix
// phase reads fall into different banks.
#pragma once

#include "kernels/cuda/int8_kernels.h"
#include "kernels/cuda/moe_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int routed_threads = 256;
constexpr int routed_columns = 256;              // of y per block
constexpr int routed_wide = routed_columns / 4;  // and per warp
constexpr int routed_depth = 32;                 // k per tile
constexpr int routed_stages = 3;
constexpr std::size_t routed_shared_bytes =
    sizeof(std::uint16_t) * routed_stages * (routed_rows + routed_columns) * routed_depth;

struct grouped_tensor_params {
  routed_plan plan;
  int experts;
  const void* const* weight;  // [experts] matrices [columns, depth], 16-byte aligned
  const std::uint16_t* x;     // [., depth]: row a / divide for assignment a; 16-byte aligned
  int divide;
  void* y;  // [R k, columns]: float32, or bfloat16 with even columns
  dtype y_type;
  int columns, depth;              // depth a multiple of 8
  const float* x_scale = nullptr;  // int8: one for each row of x
};

UNMASK_DEVICE void routed_multiply(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
  mma_16816(sum, a, b0, b1);
}
UNMASK_DEVICE void routed_multiply(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                   std::uint32_t b0, std::uint32_t b1) {
  mma_16832(sum, a, b0, b1);
}
// The result from the sum of column n; scale: of the row and of all columns.
UNMASK_DEVICE float routed_result(float sum, float, const float*, int) {
  return sum;
}
UNMASK_DEVICE float routed_result(std::int32_t sum, float x_scale, const float* w_scale, int n) {
  return static_cast<float>(int8_product(sum, x_scale, w_scale[n]));
}

UNMASK_DEVICE int routed_piece(int row, int piece) {
  return row * routed_depth + ((piece ^ ((row >> 1) & 3)) << 3);
}

// y[a] = x[a / divide] W_e^T, as grouped_gemm_kernel. Blocks: tiles of columns x a walk over the
// tiles of rows. `in_flight`: copies that may still be under way when a tile is read, one fewer
// than the stages filled ahead. `number`: of the sums, float or int32.
template <int in_flight, class number = float>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(routed_threads, 2)
    grouped_tensor_kernel(grouped_tensor_params p) {
  constexpr int x_tile = routed_rows * routed_depth, w_tile = routed_columns * routed_depth;
  constexpr int pieces = routed_depth / 8;
  static_assert(routed_rows * pieces == routed_threads);
  shared_allocator shared;
  std::uint16_t* x_shared = shared.take<std::uint16_t>(routed_stages * x_tile).data();
  std::uint16_t* w_shared = shared.take<std::uint16_t>(routed_stages * w_tile).data();
  const int t = static_cast<int>(thread_index()), lane = lane_index(), warp = warp_index();
  const int load_row = t / pieces, load_piece = t % pieces;
  const int warp_row = warp % 2 * 32, warp_column = warp / 2 * routed_wide;
  const int first_column = static_cast<int>(block_index()) * routed_columns;
  const int columns = p.columns - first_column;
  const int steps = (p.depth + routed_depth - 1) / routed_depth;
  const std::int32_t tiles = p.plan.tile_begin[p.experts];
  for (std::int32_t tile = static_cast<std::int32_t>(block_index_y()); tile < tiles;
       tile += static_cast<std::int32_t>(grid_size_y())) {
    const int expert = expert_of_tile(p.plan, p.experts, tile);
    const int first = p.plan.begin[expert] + (tile - p.plan.tile_begin[expert]) * routed_rows;
    const int rest = p.plan.begin[expert + 1] - first;
    const int rows = rest < routed_rows ? rest : routed_rows;
    const auto* w = static_cast<const std::uint16_t*>(p.weight[expert]) +
                    static_cast<std::int64_t>(first_column) * p.depth;
    const std::uint16_t* x_row =
        load_row < rows
            ? p.x + static_cast<std::int64_t>(p.plan.assignment[first + load_row] / p.divide) *
                        p.depth
            : nullptr;

    // What lies outside the matrices is filled with zeros. A thread brings in the same rows of every
    // tile of k.
    constexpr int w_rows = routed_columns / routed_rows;
    const std::uint16_t* x_from = x_row != nullptr ? x_row + load_piece * 8 : p.x;
    const std::uint16_t* w_from =
        w + static_cast<std::int64_t>(load_row) * p.depth + load_piece * 8;
    const std::int64_t w_step = static_cast<std::int64_t>(routed_rows) * p.depth;
    const auto load = [&](int step) {
      const int stage = step % routed_stages, k = step * routed_depth;
      const bool deep = k + load_piece * 8 < p.depth, row_there = x_row != nullptr && deep;
      copy_async_16(x_shared + stage * x_tile + routed_piece(load_row, load_piece),
                    row_there ? x_from + k : p.x, row_there);
#pragma unroll
      for (int part = 0; part < w_rows; ++part) {
        const int n = load_row + part * routed_rows;
        const bool there = deep && n < columns;
        copy_async_16(w_shared + stage * w_tile + routed_piece(n, load_piece),
                      there ? w_from + part * w_step + k : w, there);
      }
    };
    sync_block();  // the last tile has been read
#pragma unroll
    for (int j = 0; j < routed_stages - 1; ++j) {
      if (j < steps) load(j);
      copy_async_commit();
    }
    number sum[2][routed_wide / 8][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int n = 0; n < routed_wide / 8; ++n)
        sum[i][n][0] = sum[i][n][1] = sum[i][n][2] = sum[i][n][3] = 0;
    }
    for (int step = 0; step < steps; ++step) {
      copy_async_wait<in_flight>();
      sync_block();
      if (step + routed_stages - 1 < steps) load(step + routed_stages - 1);
      copy_async_commit();
      const std::uint16_t* xs = x_shared + step % routed_stages * x_tile;
      const std::uint16_t* ws = w_shared + step % routed_stages * w_tile;
      // A decode step fills few tiles: spare the tensor cores.
      if (warp_row >= rows || warp_column >= columns) continue;
#pragma unroll
      for (int k = 0; k < routed_depth / 16; ++k) {
        std::uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          load_matrix_x4(a[i], xs + routed_piece(warp_row + i * 16 + lane % 16, k * 2 + lane / 16));
        }
#pragma unroll
        for (int j = 0; j < routed_wide / 16; ++j) {
          std::uint32_t b[4];
          load_matrix_x4(b,
                         ws + routed_piece(warp_column + j * 16 + (lane & 7) + ((lane >> 4) << 3),
                                           k * 2 + ((lane >> 3) & 1)));
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            routed_multiply(sum[i][2 * j], a[i], b[0], b[1]);
            routed_multiply(sum[i][2 * j + 1], a[i], b[2], b[3]);
          }
        }
      }
    }
    copy_async_wait<0>();
    constexpr bool integer = std::is_same_v<number, std::int32_t>;
    const float* w_scale =
        integer ? int8_weight_scales(p.weight[expert], p.columns, 2 * p.depth) : nullptr;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int m = warp_row + i * 16 + h * 8 + lane / 4;
        if (m >= rows) continue;
        const std::int32_t assignment = p.plan.assignment[first + m];
        const std::int64_t to = static_cast<std::int64_t>(assignment) * p.columns;
        const float x_scale = integer ? p.x_scale[assignment / p.divide] : 0.0F;
#pragma unroll
        for (int n = 0; n < routed_wide / 8; ++n) {
          const int column = first_column + warp_column + n * 8 + lane % 4 * 2;
          if (!integer && p.y_type == dtype::bf16) {
            if (column < p.columns) {
              store_pair(p.y, dtype::bf16, to + column, sum[i][n][2 * h], sum[i][n][2 * h + 1]);
            }
            continue;
          }
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            if (column + e < p.columns) {
              static_cast<float*>(p.y)[to + column + e] =
                  routed_result(sum[i][n][2 * h + e], x_scale, w_scale, column + e);
            }
          }
        }
      }
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
