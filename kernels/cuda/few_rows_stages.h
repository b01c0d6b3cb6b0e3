// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the products of few rows share (few_rows_kernels.h, few_parts_kernels.h): a warpgroup copies stages of
// x [rows, 64] and of W [weights, 64], bfloat16, swizzled as wgmma reads them (nvidia.h), and the others
// multiply them. Named barriers: a stage is full, a stage is empty. Weights are the operand of 64 rows.
//
// A shape has: rows, of the tile of x; weights, rows of W in a stage; each, tiles of 64 of them that a
// warpgroup multiplies; stages; computing and threads of a block; full and empty, the first barriers.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/launches.h"
#include "kernels/cuda/device/warpgroups.h"
#include "kernels/cuda/few_rows_tiles.h"

namespace unmask::cuda::UNMASK_TARGET {

template <class shape>
inline constexpr int few_x_tile = shape::rows* few_depth;  // elements
template <class shape>
inline constexpr int few_w_tile = shape::weights* few_depth;
template <class shape>
inline constexpr std::size_t few_shared_bytes =
    sizeof(std::uint16_t) * shape::stages*(few_x_tile<shape> + few_w_tile<shape>);

// A thread copies 8 of k, a piece, of every 16th row of a tile.
constexpr int few_pieces = few_depth / 8, few_at_once = 128 / few_pieces;
static_assert(few_at_once == 16);

// What it copies: from its piece of its first row, in the first step of k.
struct few_source {
  const std::uint16_t *x, *w;
  std::int64_t x_apart, w_apart;  // elements to its next row
  int x_rows, w_rows;             // of its rows, those that are there
  int steps, depth;               // depth: of k, from its piece on
  const std::uint16_t* any;       // an address that is there, for what is not copied
};
// Of `count` rows from a thread's first one on, those that are its.
UNMASK_DEVICE int few_rows_of_thread(int count) {
  return (count + few_at_once - 1) / few_at_once;
}

// What is outside the matrix is filled with zeros.
template <int rows>
UNMASK_DEVICE void copy_few_tile(std::uint16_t* to, const std::uint16_t* from, std::int64_t apart,
                                 int there, const std::uint16_t* any) {
#pragma unroll
  for (int i = 0; i < rows / few_at_once; ++i) {
    copy_async_16(to + i * few_at_once * few_depth, i < there ? from + i * apart : any, i < there);
  }
}

// The warpgroup that copies. A stage is announced two stages before the ring is full, so that as many
// copies are under way as there is room for. So many stages of W are copied before the launches before this
// one have ended: only x is their result.
template <class shape>
UNMASK_DEVICE void copy_few_rows(const few_source& from, std::uint16_t* x, std::uint16_t* w) {
  constexpr int late = shape::stages - 2;
  const int t = static_cast<int>(thread_index()) - shape::computing, row = t / few_pieces,
            piece = t % few_pieces;
  // A row's number modulo 8 is the same in every part, and so is where its piece goes.
  const int to = row * few_depth + ((piece ^ (row & 7)) << 3);
  const auto copy_weights = [&](int step) {
    const int stage = step % shape::stages, k = step * few_depth;
    sync_named(shape::empty + stage, shape::threads);
    copy_few_tile<shape::weights>(w + stage * few_w_tile<shape> + to, from.w + k, from.w_apart,
                                  k < from.depth ? from.w_rows : 0, from.any);
  };
#pragma unroll 1
  for (int step = 0; step < late && step < from.steps; ++step) copy_weights(step);
  wait_for_launches();
#pragma unroll 1
  for (int step = 0; step < from.steps + late; ++step) {
    if (step < from.steps) {
      if (step >= late) copy_weights(step);
      const int stage = step % shape::stages, k = step * few_depth;
      copy_few_tile<shape::rows>(x + stage * few_x_tile<shape> + to, from.x + k, from.x_apart,
                                 k < from.depth ? from.x_rows : 0, from.any);
    }
    copy_async_commit();
    if (step < late) continue;
    copy_async_wait<late>();
    fence_shared_copies();
    arrive_named(shape::full + (step - late) % shape::stages, shape::threads);
  }
}

// sums[tile][n]: of rows 8 n + 2 (lane % 4) (+ 1) of x, and of the rows lane / 4 (the first two) and 8 + lane / 4
// of the 16 of W that the warp has of the tile.
template <class shape>
using few_sums = float[shape::each][shape::rows / 8][4];

// The warpgroups that compute: so many steps, at least one. Sums are added in the order of k, 16 at a time.
template <class shape>
UNMASK_DEVICE void multiply_few_rows(int steps, const std::uint16_t* x, const std::uint16_t* w,
                                     few_sums<shape>& sums) {
  constexpr int tile = 64 * few_depth, units = 8;  // elements of 16 bytes
  const wgmma_place weights = place_of(w + shuffle(warp_index() / 4, 0) * shape::each * tile, 16),
                    rows = place_of(x, 16);
  const auto start = [&]<bool adds>(int step, std::bool_constant<adds>) {
    const int stage = step % shape::stages;
    sync_named(shape::full + stage, shape::threads);
    const wgmma_place a = same_in_warp(weights.further(stage * (few_w_tile<shape> / units))),
                      b = same_in_warp(rows.further(stage * (few_x_tile<shape> / units)));
    wgmma_begin(sums);
#pragma unroll
    for (int k = 0; k < few_depth / 16; ++k) {
#pragma unroll
      for (int i = 0; i < shape::each; ++i) {
        const wgmma_place part = a.further(i * (tile / units) + 2 * k);
        if (adds || k > 0) {
          wgmma_tile<true>(sums[i], part, b.further(2 * k));
        } else {
          wgmma_tile<false>(sums[i], part, b);
        }
      }
    }
    wgmma_commit();
  };
#pragma unroll
  for (int stage = 0; stage < shape::stages; ++stage) {
    arrive_named(shape::empty + stage, shape::threads);
  }
  start(0, std::false_type{});
#pragma unroll 1
  for (int step = 1; step < steps; ++step) {
    start(step, std::true_type{});
    wgmma_wait<1>();
    arrive_named(shape::empty + (step - 1) % shape::stages, shape::threads);
  }
  wgmma_wait<0>();
  wgmma_end(sums);
}

}  // namespace unmask::cuda::UNMASK_TARGET
