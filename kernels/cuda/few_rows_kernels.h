// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Gate and up of few rows (up to 192): y = silu(x Wg^T) (x Wu^T), in one launch. Such a product reads
// its weights once and does little else, so each multiprocessor gets the same share of them: 96
// columns of y, that is 192 rows of W, against all rows of x. 12,288 columns are 128 blocks for 132
// multiprocessors. No pair is written and read again.
//
// Weights are the operand of 64 rows, of which each warp has 16: eight of the gate and the same
// eight of up, so that one thread sums both. Three warpgroups compute, a fourth copies ahead. Every
// sum is taken in the order of k, 16 at a time, whatever the other rows are. 192 rows are 96 sums a
// thread, of 128 registers; more would not fit the launch.
//
// Shared memory: the stages of few_rows_stages.h. One more barrier: every product is done.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/few_rows_stages.h"

namespace unmask::cuda::UNMASK_TARGET {

struct few_rows_params {
  const std::uint16_t* x;  // [rows, depth], 16-byte aligned
  const std::uint16_t* w;  // [2 columns, depth]: gate, then up; the same
  std::uint16_t* y;        // [rows, columns], rows y_stride apart, each 16-byte aligned
  std::int64_t y_stride;
  int rows, columns, depth;  // columns and depth multiples of 8
};

template <int tile_rows>
struct few_shape {
  static constexpr int rows = tile_rows, stages = few_stages(tile_rows), weights = 2 * few_columns,
                       each = 1;
  static constexpr int computing = 384, threads = computing + 128;
  // Results on their way to y: rows of few_columns, so far apart that a warp's fall into different banks.
  static constexpr int pitch = few_columns + 8;
  static constexpr int full = 1, empty = full + stages, done = empty + stages;  // barriers
  static_assert(done < 16 && weights == computing / 128 * each * 64);
};

UNMASK_DEVICE few_source gate_and_up_of(const few_rows_params& p, int computing) {
  const int t = static_cast<int>(thread_index()) - computing, row = t / few_pieces,
            k = t % few_pieces * 8;
  const int first = static_cast<int>(block_index()) * few_columns;
  const std::int64_t depth = p.depth;
  return {p.x + row * depth + k,
          p.w + (first + row % 8 + (row < 8 ? 0 : p.columns)) * depth + k,
          few_at_once * depth,
          8 * depth,
          few_rows_of_thread(p.rows - row),
          (p.columns - first) / 8,
          (p.depth + few_depth - 1) / few_depth,
          p.depth - k,
          p.w};
}

// Through shared memory, so that rows are written 16 bytes at a time.
template <class shape>
UNMASK_DEVICE void store_few_rows(const few_rows_params& p, std::uint16_t* between,
                                  const few_sums<shape>& sums) {
  static_assert(shape::rows * shape::pitch <= shape::stages * few_x_tile<shape>);
  const int lane = lane_index();
  std::uint16_t* to = between + lane % 4 * 2 * shape::pitch + warp_index() * 8 + lane / 4;
#pragma unroll
  for (int n = 0; n < shape::rows / 8; ++n) {
    const float(&s)[4] = sums[0][n];
    const std::uint32_t both = gated_pair(pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]));
    to[n * 8 * shape::pitch] = static_cast<std::uint16_t>(both & 0xFFFFU);
    to[(n * 8 + 1) * shape::pitch] = static_cast<std::uint16_t>(both >> 16);
  }
  sync_named(shape::done, shape::computing);
  constexpr int pieces = few_columns / 8, rows_at_once = shape::computing / pieces;
  const int t = static_cast<int>(thread_index()), piece = t % pieces * 8;
  const int column = static_cast<int>(block_index()) * few_columns + piece;
  if (column >= p.columns) return;
  for (int row = t / pieces; row < p.rows; row += rows_at_once) {
    word_at<bf16_piece>(p.y + row * p.y_stride + column) =
        word_at<bf16_piece>(between + row * shape::pitch + piece);
  }
}

// Blocks: few_blocks(columns). Only Hopper's machine code has it (ops/gated_linear.cu).
template <int tile_rows>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(few_shape<tile_rows>::threads, 1)
    few_rows_kernel([[maybe_unused]] few_rows_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using shape = few_shape<tile_rows>;
  shared_allocator shared;
  std::uint16_t* x = shared.take<std::uint16_t>(shape::stages * few_x_tile<shape>).data();
  std::uint16_t* w = shared.take<std::uint16_t>(shape::stages * few_w_tile<shape>).data();
  let_next_start();
  if (shuffle(warp_index() / 4, 0) == shape::computing / 128) {
    copy_few_rows<shape>(gate_and_up_of(p, shape::computing), x, w);
  } else {
    few_sums<shape> sums;
    multiply_few_rows<shape>((p.depth + few_depth - 1) / few_depth, x, w, sums);
    sync_named(shape::done, shape::computing);  // the stages have been read
    wait_for_launches();
    store_few_rows<shape>(p, x, sums);
  }
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
