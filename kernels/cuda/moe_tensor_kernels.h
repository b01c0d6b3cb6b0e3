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
constexpr int routed_wide = routed_columns / 4;  // columns of y per warp
constexpr int routed_stages = 3;
constexpr std::size_t routed_shared_bytes =
    sizeof(std::uint16_t) * routed_stages * (routed_rows + routed_columns) * routed_depth;

struct grouped_tensor_params {
  routed_plan plan;
  int experts;
  const void* const*
      weight;  // [experts] matrices [columns or, gated, 2 columns, depth], 16-byte aligned
  const std::uint16_t* x;  // [., depth]: row a / divide for assignment a; 16-byte aligned
  int divide;
  void* y;  // [R k, columns]: float32, or bfloat16 with even columns; gated: bfloat16
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
// than the stages filled ahead. `number`: of the sums, float or int32. `gated`: W_e has the columns
// of the gate and then those of up, and y = silu(gate) up, of both rounded to bfloat16: half of a
// warp's columns are of the gate and the others the same of up, so that one thread sums both.
template <int in_flight, class number = float, bool gated = false>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(routed_threads, 2)
    grouped_tensor_kernel(grouped_tensor_params p) {
  constexpr int x_tile = routed_rows * routed_depth, w_tile = routed_columns * routed_depth;
  constexpr int pieces = routed_depth / 8;
  constexpr int warp_columns = gated ? routed_wide / 2 : routed_wide;  // of y
  static_assert(routed_rows * pieces == routed_threads);
  shared_allocator shared;
  std::uint16_t* x_shared = shared.take<std::uint16_t>(routed_stages * x_tile).data();
  std::uint16_t* w_shared = shared.take<std::uint16_t>(routed_stages * w_tile).data();
  const int t = static_cast<int>(thread_index()), lane = lane_index(), warp = warp_index();
  const int load_row = t / pieces, load_piece = t % pieces;
  const int warp_row = warp % 2 * 32, warp_column = warp / 2 * routed_wide,
            y_column = warp / 2 * warp_columns;
  const int first_column =
      static_cast<int>(block_index()) * (routed_columns / routed_wide) * warp_columns;
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
    static_assert(routed_wide == routed_rows, "a thread loads one row for every warp's columns");
    const int load_column = load_row % warp_columns;
    const std::uint16_t* x_from = x_row != nullptr ? x_row + load_piece * 8 : p.x;
    const std::uint16_t* w_from =
        w + static_cast<std::int64_t>(load_column + load_row / warp_columns * p.columns) * p.depth +
        load_piece * 8;
    const std::int64_t w_step = static_cast<std::int64_t>(warp_columns) * p.depth;
    const auto load = [&](int step) {
      const int stage = step % routed_stages, k = step * routed_depth;
      const bool deep = k + load_piece * 8 < p.depth, row_there = x_row != nullptr && deep;
      copy_async_16(x_shared + stage * x_tile + routed_piece(load_row, load_piece),
                    row_there ? x_from + k : p.x, row_there);
#pragma unroll
      for (int part = 0; part < w_rows; ++part) {
        const bool there = deep && load_column + part * warp_columns < columns;
        copy_async_16(
            w_shared + stage * w_tile + routed_piece(load_row + part * routed_wide, load_piece),
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
      if (warp_row >= rows || y_column >= columns) continue;
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
        for (int n = 0; n < warp_columns / 8; ++n) {
          const int column = first_column + y_column + n * 8 + lane % 4 * 2;
          if constexpr (gated) {
            const number *gate = sum[i][n] + 2 * h, *up = sum[i][n + warp_columns / 8] + 2 * h;
            if (column < p.columns) {
              word_at<std::uint32_t>(static_cast<std::uint16_t*>(p.y) + to + column) =
                  gated_pair(pack_bf16(gate[0], gate[1]), pack_bf16(up[0], up[1]));
            }
            continue;
          }
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

// The same, bfloat16 alone, by wgmma, where experts have tiles of 144 rows to fill: an expert with the
// 256 assignments that large batches of LLaDA2.0-mini bring has two, seldom three. A block computes 256
// columns with two warpgroups of 128; weights are the operand with 64 rows an instruction, so that a
// tile's assignments need be no multiple of 64. More rows for the same columns take less of the weights
// from L2, and operands are not loaded into registers. Tiles of 64 k are copied two ahead, across the
// tiles that a block computes, so that it waits for memory once; while one is multiplied, the one
// before may still be.
constexpr int wide_depth = 64, wide_stages = 4;
constexpr std::size_t wide_shared_bytes =
    sizeof(std::uint16_t) * wide_stages * (wide_rows + wide_columns) * wide_depth;

// A tile of rows and columns of the result.
struct wide_tile {
  int expert, first, rows;  // assignments first, first + 1, ... of the plan
  int first_column;
};
UNMASK_DEVICE wide_tile wide_tile_at(const grouped_tensor_params& p, int item, int y_columns) {
  const int across = (p.columns + y_columns - 1) / y_columns, tile = item / across;
  const int expert = expert_of_tile(p.plan, p.experts, tile);
  const int first = p.plan.begin[expert] + (tile - p.plan.tile_begin[expert]) * wide_rows;
  const int rest = p.plan.begin[expert + 1] - first;
  return {expert, first, rest < wide_rows ? rest : wide_rows, item % across * y_columns};
}

// Stores a warp's part of a tile, whose first column is `first_column`. Each lane stores two columns of one assignment at
// a time: lanes of neighbouring columns swap one of two assignments.
template <bool gated>
UNMASK_DEVICE void store_wide(const grouped_tensor_params& p, const wide_tile& tile,
                              const float (&sum)[2][wide_rows / 2], int first_column) {
  const int lane = lane_index(), odd = lane / 4 % 2;
#pragma unroll
  for (int j = 0; j < wide_rows / 8; ++j) {
    const int m = j * 8 + lane % 4 * 2 + odd;
    const bool there = m < tile.rows;
    auto* y = static_cast<std::uint16_t*>(p.y);
    if (there) y += static_cast<std::int64_t>(p.plan.assignment[tile.first + m]) * p.columns;
#pragma unroll
    for (int part = 0; part < (gated ? 2 : 4); ++part) {  // 8 columns of a warp
      const int half = part % 2, operand = part / 2;
      const float* s = sum[operand] + 4 * j + 2 * half;
      const float* up = sum[1] + 4 * j + 2 * half;
      const std::uint32_t pair = pack_bf16(s[0], s[1]);
      const std::uint32_t mine = gated ? gated_pair(pair, pack_bf16(up[0], up[1])) : pair;
      const std::uint32_t other = shuffle_xor(mine, 4);
      const int column = first_column + operand * 64 + half * 8 + lane / 4 - odd;
      if (!there || column >= p.columns) continue;
      word_at<std::uint32_t>(y + column) =
          odd != 0 ? other >> 16 | (mine & 0xFFFF0000U) : (mine & 0xFFFFU) | other << 16;
    }
  }
}

// Any number of blocks. `in_flight` and `gated` as above; gated, a warpgroup's first 64 columns are of
// the gate and the others the same of up.
template <int in_flight, bool gated>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(routed_threads, 1)
    grouped_wide_kernel(grouped_tensor_params p) {
  constexpr int x_tile = wide_rows * wide_depth, w_tile = wide_columns * wide_depth;
  constexpr int pieces = wide_depth / 8, load_rows = routed_threads / pieces;
  constexpr int x_parts = (wide_rows + load_rows - 1) / load_rows;
  constexpr int w_parts = wide_columns / load_rows;
  constexpr int y_columns = gated ? wide_columns / 2 : wide_columns, group_columns = y_columns / 2;
  constexpr int wide_half = wide_columns / 2;
  shared_allocator shared;
  std::uint16_t* x_shared = shared.take<std::uint16_t>(wide_stages * x_tile).data();
  std::uint16_t* w_shared = shared.take<std::uint16_t>(wide_stages * w_tile).data();
  const int t = static_cast<int>(thread_index()), warp = warp_index();
  const int load_row = t / pieces, piece = t % pieces;
  // A row's number modulo 8 is the same in every part, and so is where its piece lies.
  const int load_to = load_row * wide_depth + ((piece ^ (load_row & 7)) << 3);
  const int group = warp / 4;
  const int steps = (p.depth + wide_depth - 1) / wide_depth;
  const int items = p.plan.tile_begin[p.experts] * ((p.columns + y_columns - 1) / y_columns);

  // What is copied next: step `load_step` of tile `load_item`, whose rows these are.
  int load_item = static_cast<int>(block_index()), load_step = 0, load_columns = 0;
  const std::uint16_t *w = nullptr, *x[x_parts] = {};
  const auto find_rows = [&] {
    if (load_item >= items) return;
    const wide_tile tile = wide_tile_at(p, load_item, y_columns);
    load_columns = p.columns - tile.first_column;
    w = static_cast<const std::uint16_t*>(p.weight[tile.expert]) +
        static_cast<std::int64_t>(tile.first_column + load_row) * p.depth + piece * 8;
#pragma unroll
    for (int i = 0; i < x_parts; ++i) {
      const int m = load_row + i * load_rows;
      const int row = m < tile.rows ? p.plan.assignment[tile.first + m] / p.divide : -1;
      x[i] = row < 0 ? nullptr : p.x + static_cast<std::int64_t>(row) * p.depth + piece * 8;
    }
  };
  // What lies outside the matrices is filled with zeros.
  const auto load = [&](int stage) {
    if (load_item < items) {
      const int k = load_step * wide_depth;
      const bool deep = k + piece * 8 < p.depth;
#pragma unroll
      for (int i = 0; i < x_parts; ++i) {
        const bool there = deep && x[i] != nullptr;
        if (load_row + i * load_rows >= wide_rows) continue;
        copy_async_16(x_shared + stage * x_tile + load_to + i * load_rows * wide_depth,
                      there ? x[i] + k : p.x, there);
      }
#pragma unroll
      for (int i = 0; i < w_parts; ++i) {
        // Row of the tile, and the column of W_e that it holds.
        const int row = i * load_rows, of_up = gated && row % wide_half >= 64;
        const int column = gated ? row / wide_half * 64 + row % 64 : row;
        const bool there = deep && column + load_row < load_columns;
        copy_async_16(
            w_shared + stage * w_tile + load_to + row * wide_depth,
            there ? w + static_cast<std::int64_t>(column + of_up * p.columns) * p.depth + k : p.x,
            there);
      }
      if (++load_step == steps) {
        load_step = 0;
        load_item += static_cast<int>(grid_size());
        find_rows();
      }
    }
    copy_async_commit();
  };
  find_rows();
#pragma unroll
  for (int j = 0; j < wide_stages - 2; ++j) load(j);

  int stage = 0;
  for (int item = static_cast<int>(block_index()); item < items;
       item += static_cast<int>(grid_size())) {
    // Of columns 16 w + l / 4 (+ 8) of both operands' rows and assignments 8 j + 2 (l % 4) (+ 1).
    float sum[2][wide_rows / 2];
#pragma unroll
    for (int i = 0; i < wide_rows / 2; ++i) sum[0][i] = sum[1][i] = 0;
    for (int step = 0; step < steps; ++step, stage = (stage + 1) % wide_stages) {
      copy_async_wait<in_flight>();
      fence_shared_copies();
      wgmma_wait<1>();  // the last step but one, whose stage is filled next
      sync_block();
      const std::uint16_t* xs = x_shared + stage * x_tile;
      const std::uint16_t* ws = w_shared + stage * w_tile + group * wide_half * wide_depth;
      wgmma_begin(sum);
#pragma unroll
      for (int k = 0; k < wide_depth; k += 16) {
        wgmma_64x144x16(sum[0], ws + k, xs + k);
        wgmma_64x144x16(sum[1], ws + 64 * wide_depth + k, xs + k);
      }
      wgmma_commit();
      load((stage + wide_stages - 2) % wide_stages);
    }
    wgmma_wait<0>();
    const wide_tile tile = wide_tile_at(p, item, y_columns);
    store_wide<gated>(p, tile, sum, tile.first_column + group * group_columns + warp % 4 * 16);
  }
  copy_async_wait<0>();
}

}  // namespace unmask::cuda::UNMASK_TARGET
