// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The experts' products of moe_tensor_kernels.h by warpgroups that have a role each, bfloat16 on Hopper. Tiles are as
// there, 144 assignments x 256 columns, and so is the order of every sum. Two warpgroups multiply 128 columns each, a
// third copies ahead, and a fourth stores. Results are rounded to bfloat16 and left in shared memory. While they are
// stored from there, 16 bytes a lane, the next tile is multiplied. The fourth warpgroup also gates: gate and up are
// left as they are, so that no exponential is between two products.
//
// Shared memory: stages of x [144, 64] and of W [256, 64], bfloat16, swizzled as wgmma reads them (nvidia.h); results
// [144, 256], piece c of row r at c ^ (r & 7). So the eight rows that are stored at once, and the pieces of a row that
// are read at once, fall into different banks.
//
// Named barriers: a stage is full, one for each warpgroup that multiplies, because they do not wait at the same time;
// a stage is empty, which both say; results are left, which both say; they have been read, one for each.
#pragma once

#include <type_traits>

#include "kernels/cuda/device/warpgroups.h"
#include "kernels/cuda/moe_tensor_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int roles_stages = 3, roles_multiplying = 256,
              roles_threads = roles_multiplying + 2 * 128;
constexpr int roles_x_tile = wide_rows * wide_depth, roles_w_tile = wide_columns * wide_depth;
constexpr std::size_t roles_shared_bytes =
    sizeof(std::uint16_t) *
    (roles_stages * (roles_x_tile + roles_w_tile) + wide_rows * wide_columns);

// Registers of a thread: 4 x 128 of the launch. Sums are 144.
constexpr int roles_registers = 200, roles_copying_registers = 72, roles_storing_registers = 40;
static_assert(2 * roles_registers + roles_copying_registers + roles_storing_registers == 4 * 128);

namespace roles_barrier {  // + stages x warpgroup, + stage
enum : int {
  full = 1,
  empty = full + 2 * roles_stages,
  left = empty + roles_stages,
  read = left + 1
};
constexpr int of_full = 256, of_empty = 384, of_left = 384, of_read = 256;  // threads that come
static_assert(read + 1 < 16);
}  // namespace roles_barrier

// What a block does: `items` tiles of the result in all, of which it takes every grid_size()th, in `steps` of 64 k.
struct roles_work {
  int items, steps;
};
UNMASK_DEVICE int next_stage(int stage) {
  return stage + 1 == roles_stages ? 0 : stage + 1;
}

// ---- the warpgroup that copies ------------------------------------------------------------------

constexpr int roles_pieces = wide_depth / 8, roles_rows_at_once = 128 / roles_pieces;
constexpr int roles_x_parts = wide_rows / roles_rows_at_once,
              roles_w_parts = wide_columns / roles_rows_at_once;
static_assert(wide_rows % roles_rows_at_once == 0 && roles_rows_at_once % 8 == 0);

// What a thread copies of a tile: its piece of every 16th row.
struct roles_source {
  std::int32_t assignment[roles_x_parts];  // of its rows of x; negative: there is none
  const std::uint16_t* w;                  // its first row of W_e
  int columns;                             // of W_e that are there, from that row on
};

template <bool gated>
UNMASK_DEVICE roles_source roles_source_of(const grouped_tensor_params& p, const roles_work& work,
                                           int item, int row, int piece) {
  roles_source from{};
  if (item >= work.items) return from;
  const wide_tile tile = wide_tile_at(p, item, gated ? wide_columns / 2 : wide_columns);
#pragma unroll
  for (int i = 0; i < roles_x_parts; ++i) {
    const int m = row + i * roles_rows_at_once;
    from.assignment[i] = m < tile.rows ? p.plan.assignment[tile.first + m] : -1;
  }
  from.w = static_cast<const std::uint16_t*>(p.weight[tile.expert]) +
           static_cast<std::int64_t>(tile.first_column + row) * p.depth + piece * 8;
  from.columns = p.columns - tile.first_column - row;
  return from;
}

// Copies the step of k whose piece begins at `k`. What is outside the matrices is filled with zeros.
template <bool gated>
UNMASK_DEVICE void copy_roles_step(const grouped_tensor_params& p,
                                   const std::int32_t (&x_row)[roles_x_parts],
                                   const roles_source& from, int k, int step, std::uint16_t* x,
                                   std::uint16_t* w) {
  constexpr int half = wide_columns / 2;
  const bool deep = k < p.depth;
#pragma unroll
  for (int i = 0; i < roles_x_parts; ++i) {
    const bool there = deep && x_row[i] >= 0;
    copy_async_16(x + i * roles_rows_at_once * wide_depth,
                  there ? p.x + static_cast<std::int64_t>(x_row[i]) * p.depth + k : p.x, there);
  }
#pragma unroll
  for (int i = 0; i < roles_w_parts; ++i) {
    // Row of the tile, and the column of W_e that it holds.
    const int row = i * roles_rows_at_once, of_up = gated && row % half >= 64;
    const int column = gated ? row / half * 64 + row % 64 : row;
    const bool there = deep && column < from.columns;
    const std::int64_t at = static_cast<std::int64_t>(column + of_up * p.columns) * p.depth;
    copy_async_16(w + row * wide_depth, there ? from.w + at + step * wide_depth : p.x, there);
  }
}

// A step is announced when the next one has been started, so that two are under way. `in_flight`: the copies that
// may be when a step is announced.
template <int in_flight, bool gated>
UNMASK_DEVICE void copy_roles(const grouped_tensor_params& p, const roles_work& work,
                              std::uint16_t* x, std::uint16_t* w) {
  const int t = static_cast<int>(thread_index()) - roles_multiplying, row = t / roles_pieces,
            piece = t % roles_pieces;
  // A row's number modulo 8 is the same in every part, and so is where its piece goes.
  const int to = row * wide_depth + ((piece ^ (row & 7)) << 3);
  const auto announce = [](int stage) {
    fence_shared_copies();
    arrive_named(roles_barrier::full + stage, roles_barrier::of_full);
    arrive_named(roles_barrier::full + roles_stages + stage, roles_barrier::of_full);
  };
  int stage = 0, started = -1;  // started: the stage that is not announced yet
  roles_source next = roles_source_of<gated>(p, work, static_cast<int>(block_index()), row, piece);
#pragma unroll 1
  for (int item = static_cast<int>(block_index()); item < work.items;
       item += static_cast<int>(grid_size())) {
    const roles_source from = next;
    std::int32_t x_row[roles_x_parts];
#pragma unroll
    for (int i = 0; i < roles_x_parts; ++i) {
      x_row[i] = from.assignment[i] < 0 ? -1 : from.assignment[i] / p.divide;
    }
#pragma unroll 1
    for (int step = 0; step < work.steps; ++step, stage = next_stage(stage)) {
      sync_named(roles_barrier::empty + stage, roles_barrier::of_empty);
      copy_roles_step<gated>(p, x_row, from, step * wide_depth + piece * 8, step,
                             x + stage * roles_x_tile + to, w + stage * roles_w_tile + to);
      copy_async_commit();
      if (started >= 0) {
        copy_async_wait<in_flight>();
        announce(started);
      }
      started = stage;
      // The next tile's rows are looked up while this one is copied.
      if (step == 0) {
        next = roles_source_of<gated>(p, work, item + static_cast<int>(grid_size()), row, piece);
      }
    }
  }
  copy_async_wait<0>();
  if (started >= 0) announce(started);
}

// ---- the warpgroups that multiply ---------------------------------------------------------------

// sums[i][j]: of assignments 8 j + 2 (lane % 4) (+ 1), and of the columns lane / 4 (the first two) and 8 + lane / 4 of
// the 16 that a warp has of the warpgroup's 64 of operand i.
using roles_sums = float[2][wide_rows / 8][4];

// Rounded to bfloat16, a matrix of 8 columns x 8 assignments after the other, four at once.
UNMASK_DEVICE void leave_roles_results(std::uint16_t* results, const roles_sums& sums, int group) {
  const int row = lane_index() % 8, matrix = lane_index() / 8;
  const int piece = group * 16 + matrix / 2 * 8 + warp_index() % 4 * 2 + matrix % 2;
  std::uint16_t* to = results + row * wide_columns + ((piece ^ row) << 3);
#pragma unroll
  for (int j = 0; j < wide_rows / 8; ++j) {
    std::uint32_t pair[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* s = sums[i / 2][j] + i % 2 * 2;
      pair[i] = pack_bf16(s[0], s[1]);
    }
    store_matrix_x4_transposed(to + j * 8 * wide_columns, pair);
  }
}

UNMASK_DEVICE void multiply_roles(const roles_work& work, const std::uint16_t* x,
                                  const std::uint16_t* w, std::uint16_t* results, int group) {
  constexpr int tile = 64 * wide_depth, units = 8;  // elements of 16 bytes
  const wgmma_place rows = place_of(x, 16), weights = place_of(w + group * 2 * tile, 16);
  roles_sums sums;
  int stage = 0;
  const auto start = [&]<bool adds>(std::bool_constant<adds>) {
    sync_named(roles_barrier::full + group * roles_stages + stage, roles_barrier::of_full);
    const wgmma_place a = same_in_warp(weights.further(stage * (roles_w_tile / units))),
                      b = same_in_warp(rows.further(stage * (roles_x_tile / units)));
    wgmma_begin(sums);
#pragma unroll
    for (int k = 0; k < wide_depth / 16; ++k) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
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
  const auto release = [](int of) {
    arrive_named(roles_barrier::empty + of, roles_barrier::of_empty);
  };
#pragma unroll
  for (int of = 0; of < roles_stages; ++of) release(of);
#pragma unroll 1
  for (int item = static_cast<int>(block_index()); item < work.items;
       item += static_cast<int>(grid_size())) {
    start(std::false_type{});
#pragma unroll 1
    for (int step = 1; step < work.steps; ++step) {
      const int before = stage;
      stage = next_stage(stage);
      start(std::true_type{});
      wgmma_wait<1>();
      release(before);
    }
    wgmma_wait<0>();
    wgmma_end(sums);
    release(stage);
    stage = next_stage(stage);
    sync_named(roles_barrier::read + group, roles_barrier::of_read);
    leave_roles_results(results, sums, group);
    arrive_named(roles_barrier::left, roles_barrier::of_left);
  }
}

// ---- the warpgroup that stores ------------------------------------------------------------------

// Eight results of row m of the tile. The tile has 64 columns of the gate, the same of up, and 64 of each again.
template <bool gated>
UNMASK_DEVICE bf16_piece roles_result(const std::uint16_t* results, int m, int piece) {
  const auto at = [&](int place) {
    return word_at<bf16_piece>(results + m * wide_columns + ((place ^ (m & 7)) << 3));
  };
  if constexpr (!gated) return at(piece);
  const int place = piece / 8 * 16 + piece % 8;
  const bf16_piece gate = at(place), up = at(place + 8);
  bf16_piece y;
#pragma unroll
  for (int i = 0; i < 4; ++i) y.pair[i] = gated_pair(gate.pair[i], up.pair[i]);
  return y;
}

// A warp has 36 rows of the tile, one or, gated, two at a time. Three of these are read before they are stored.
template <bool gated>
UNMASK_DEVICE void store_roles(const grouped_tensor_params& p, const roles_work& work,
                               const std::uint16_t* results) {
  constexpr int y_columns = gated ? wide_columns / 2 : wide_columns, pieces = y_columns / 8,
                at_once = warp_size / pieces, warp_rows = wide_rows / 4, together = 3;
  static_assert(warp_rows % (at_once * together) == 0 && warp_size % at_once == 0);
  const int lane = lane_index(), first_row = warp_index() % 4 * warp_rows, piece = lane % pieces;
  const auto say_read = [] {
    arrive_named(roles_barrier::read, roles_barrier::of_read);
    arrive_named(roles_barrier::read + 1, roles_barrier::of_read);
  };
  say_read();
#pragma unroll 1
  for (int item = static_cast<int>(block_index()); item < work.items;
       item += static_cast<int>(grid_size())) {
    const wide_tile tile = wide_tile_at(p, item, y_columns);
    std::int32_t mine[2];  // assignments of the warp's rows lane and 32 + lane; negative: none
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane + warp_size * i, m = first_row + row;
      mine[i] = row < warp_rows && m < tile.rows ? p.plan.assignment[tile.first + m] : -1;
    }
    const int column = tile.first_column + piece * 8;
    sync_named(roles_barrier::left, roles_barrier::of_left);
#pragma unroll 1
    for (int i = 0; i < warp_rows; i += at_once * together) {
      bf16_piece y[together];
      std::int32_t assignment[together];
#pragma unroll
      for (int n = 0; n < together; ++n) {
        const int row = i + n * at_once + lane / pieces;
        assignment[n] = shuffle(i + n * at_once < warp_size ? mine[0] : mine[1], row % warp_size);
        y[n] = roles_result<gated>(results, first_row + row, piece);
      }
#pragma unroll
      for (int n = 0; n < together; ++n) {
        if (assignment[n] < 0 || column >= p.columns) continue;
        word_at<bf16_piece>(static_cast<std::uint16_t*>(p.y) +
                            static_cast<std::int64_t>(assignment[n]) * p.columns + column) = y[n];
      }
    }
    say_read();
  }
}

// ---- the kernel ---------------------------------------------------------------------------------

// y as of grouped_wide_kernel, bfloat16, of `columns` that are a multiple of 8. Any number of blocks. Only Hopper's
// machine code has it (ops/moe.cu).
template <int in_flight, bool gated>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(roles_threads, 1)
    grouped_roles_kernel([[maybe_unused]] grouped_tensor_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int y_columns = gated ? wide_columns / 2 : wide_columns;
  shared_allocator shared;
  std::uint16_t* x = shared.take<std::uint16_t>(roles_stages * roles_x_tile).data();
  std::uint16_t* w = shared.take<std::uint16_t>(roles_stages * roles_w_tile).data();
  std::uint16_t* results = shared.take<std::uint16_t>(wide_rows * wide_columns).data();
  const roles_work work{p.plan.tile_begin[p.experts] * ((p.columns + y_columns - 1) / y_columns),
                        (p.depth + wide_depth - 1) / wide_depth};
  const int group = shuffle(warp_index() / 4, 0);
  if (group < 2) {
    take_registers<roles_registers>();
    multiply_roles(work, x, w, results, group);
  } else if (group == 2) {
    give_registers<roles_copying_registers>();
    copy_roles<in_flight, gated>(p, work, x, w);
  } else {
    give_registers<roles_storing_registers>();
    store_roles<gated>(p, work, results);
  }
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
