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
// Shared memory: stages of x [rows, 64] and of W [192, 64], bfloat16, swizzled as wgmma reads them
// (nvidia.h). Named barriers: a stage is full, a stage is empty, every product is done.
#pragma once

#include <type_traits>

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/device/warpgroups.h"
#include "kernels/cuda/few_rows_tiles.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int few_computing = 384, few_threads = few_computing + 128;

struct few_rows_params {
  const std::uint16_t* x;  // [rows, depth], 16-byte aligned
  const std::uint16_t* w;  // [2 columns, depth]: gate, then up; the same
  std::uint16_t* y;        // [rows, columns], rows y_stride apart, each 16-byte aligned
  std::int64_t y_stride;
  int rows, columns, depth;  // columns and depth multiples of 8
};

template <int tile_rows>
struct few_shape {
  static constexpr int rows = tile_rows, stages = few_stages(tile_rows), weights = 2 * few_columns;
  static constexpr int x_tile = rows * few_depth, w_tile = weights * few_depth;
  static constexpr std::size_t shared_bytes = sizeof(std::uint16_t) * stages * (x_tile + w_tile);
  // Results on their way to y: rows of few_columns, so far apart that a warp's fall into different banks.
  static constexpr int pitch = few_columns + 8;
  static_assert(rows * pitch <= stages * x_tile);
  static constexpr int full = 1, empty = full + stages, done = empty + stages;  // barriers
  static_assert(done < 16);
};

UNMASK_DEVICE int few_steps(const few_rows_params& p) {
  return (p.depth + few_depth - 1) / few_depth;
}

// The warpgroup that copies. A stage is announced two stages before the ring is full, so that as many
// copies are under way as there is room for. What is outside the matrices is filled with zeros.
template <class shape>
UNMASK_DEVICE void copy_few_rows(const few_rows_params& p, std::uint16_t* x, std::uint16_t* w) {
  constexpr int pieces = few_depth / 8, at_once = 128 / pieces;  // rows of a tile
  constexpr int late = shape::stages - 2;
  static_assert(at_once == 16);
  const int t = static_cast<int>(thread_index()) - few_computing, row = t / pieces,
            piece = t % pieces, steps = few_steps(p);
  // A row's number modulo 8 is the same in every part, and so is where its piece goes.
  const int to = row * few_depth + ((piece ^ (row & 7)) << 3);
  const int first = static_cast<int>(block_index()) * few_columns, columns = p.columns - first;
  const std::uint16_t* x_from = p.x + static_cast<std::int64_t>(row) * p.depth + piece * 8;
  const std::uint16_t* w_from =
      p.w + static_cast<std::int64_t>(first + row % 8 + (row < 8 ? 0 : p.columns)) * p.depth +
      piece * 8;
#pragma unroll 1
  for (int step = 0; step < steps + late; ++step) {
    if (step < steps) {
      const int stage = step % shape::stages;
      sync_named(shape::empty + stage, few_threads);
      const bool deep = step * few_depth + piece * 8 < p.depth;
#pragma unroll
      for (int i = 0; i < shape::weights / at_once; ++i) {
        const bool there = deep && i * 8 < columns;
        copy_async_16(w + stage * shape::w_tile + to + i * at_once * few_depth,
                      there ? w_from + static_cast<std::int64_t>(i) * 8 * p.depth : p.w, there);
      }
#pragma unroll
      for (int i = 0; i < shape::rows / at_once; ++i) {
        const bool there = deep && row + i * at_once < p.rows;
        copy_async_16(x + stage * shape::x_tile + to + i * at_once * few_depth,
                      there ? x_from + static_cast<std::int64_t>(i) * at_once * p.depth : p.x,
                      there);
      }
      x_from += few_depth;
      w_from += few_depth;
    }
    copy_async_commit();
    if (step < late) continue;
    copy_async_wait<late>();
    fence_shared_copies();
    arrive_named(shape::full + (step - late) % shape::stages, few_threads);
  }
}

// sums[n]: of rows 8 n + 2 (lane % 4) (+ 1) and column 8 warp + lane / 4, the gate's two and then up's.
template <class shape>
using few_sums = float[shape::rows / 8][4];

template <class shape>
UNMASK_DEVICE void multiply_few_rows(const few_rows_params& p, const std::uint16_t* x,
                                     const std::uint16_t* w, few_sums<shape>& sums) {
  const int steps = few_steps(p);
  const wgmma_place weights = place_of(w + shuffle(warp_index() / 4, 0) * 64 * few_depth, 16),
                    rows = place_of(x, 16);
  const auto start = [&]<bool adds>(int step, std::bool_constant<adds>) {
    const int stage = step % shape::stages;
    sync_named(shape::full + stage, few_threads);
    const wgmma_place a = same_in_warp(weights.further(stage * (shape::w_tile / 8))),
                      b = same_in_warp(rows.further(stage * (shape::x_tile / 8)));
    wgmma_begin(sums);
    wgmma_tile<adds>(sums, a, b);
#pragma unroll
    for (int k = 1; k < few_depth / 16; ++k) {
      wgmma_tile<true>(sums, a.further(2 * k), b.further(2 * k));
    }
    wgmma_commit();
  };
#pragma unroll
  for (int stage = 0; stage < shape::stages; ++stage) {
    arrive_named(shape::empty + stage, few_threads);
  }
  start(0, std::false_type{});
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    start(step, std::true_type{});
    wgmma_wait<1>();
    arrive_named(shape::empty + (step - 1) % shape::stages, few_threads);
  }
  wgmma_wait<0>();
  wgmma_end(sums);
}

// Through shared memory, so that rows are written 16 bytes at a time.
template <class shape>
UNMASK_DEVICE void store_few_rows(const few_rows_params& p, std::uint16_t* between,
                                  const few_sums<shape>& sums) {
  const int lane = lane_index();
  std::uint16_t* to = between + lane % 4 * 2 * shape::pitch + warp_index() * 8 + lane / 4;
#pragma unroll
  for (int n = 0; n < shape::rows / 8; ++n) {
    const float(&s)[4] = sums[n];
    const std::uint32_t both = gated_pair(pack_bf16(s[0], s[1]), pack_bf16(s[2], s[3]));
    to[n * 8 * shape::pitch] = static_cast<std::uint16_t>(both & 0xFFFFU);
    to[(n * 8 + 1) * shape::pitch] = static_cast<std::uint16_t>(both >> 16);
  }
  sync_named(shape::done, few_computing);
  constexpr int pieces = few_columns / 8, rows_at_once = few_computing / pieces;
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
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(few_threads, 1)
    few_rows_kernel([[maybe_unused]] few_rows_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using shape = few_shape<tile_rows>;
  shared_allocator shared;
  std::uint16_t* x = shared.take<std::uint16_t>(shape::stages * shape::x_tile).data();
  std::uint16_t* w = shared.take<std::uint16_t>(shape::stages * shape::w_tile).data();
  if (shuffle(warp_index() / 4, 0) == few_computing / 128) {
    copy_few_rows<shape>(p, x, w);
  } else {
    few_sums<shape> sums;
    multiply_few_rows<shape>(p, x, w, sums);
    sync_named(shape::done, few_computing);  // the stages have been read
    store_few_rows<shape>(p, x, sums);
  }
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
