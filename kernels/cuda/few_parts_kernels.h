// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Products of few rows (up to 192) into the residual stream: y (+)= x W^T, float32. A matrix of 4,096 rows has
// tiles for a quarter of the multiprocessors or fewer. So k is in four or eight parts, and a cluster has a block
// for each: 128 blocks read W at the same time, once. Then each block leaves its sums in its shared memory, and
// adds its share of the rows of all blocks, in the order of the parts. No sum passes through memory.
//
// The parts depend on the matrix alone, and sums of a part run in the order of k. So a row has the same bits
// whatever the other rows are.
//
// Two warpgroups compute, a third copies ahead. With eight parts and 192 rows a thread has 192 sums: those that
// copy give their registers away.
//
// Shared memory: the stages of few_rows_stages.h; later the sums [rows, columns], float32, lie there.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/device/clusters.h"
#include "kernels/cuda/few_rows_stages.h"

namespace unmask::cuda::UNMASK_TARGET {

struct few_parts_params {
  const std::uint16_t* x;  // [rows, depth], 16-byte aligned
  const std::uint16_t* w;  // [columns, depth], the same
  float* y;                // [rows, columns], rows y_stride apart, each 16-byte aligned
  std::int64_t y_stride;
  int rows, columns, depth;  // columns and depth multiples of 8; a step of k for each part
  bool adds;                 // to y
};

template <int tile_rows, int parts_of_k>
struct parts_shape {
  static constexpr int rows = tile_rows, parts = parts_of_k,
                       stages = few_parts_stages(tile_rows, parts),
                       weights = few_parts_columns(parts), each = weights / 128;
  static constexpr int computing = 256, threads = computing + 128;
  // Floats from one row's sums to the next one's: those that a warp stores at once fall into different banks.
  static constexpr int pitch = weights + 4;
  static constexpr int full = 1, empty = full + stages, done = empty + stages;  // barriers
  static_assert(done < 16 && weights == computing / 128 * each * 64);
  static constexpr bool moves_registers = each * rows > 192;
};

// The steps of k of a part: as many as those of the others, or one more.
struct part_of_k {
  int first, end;
};
UNMASK_DEVICE part_of_k part_of(int depth, int part, int parts) {
  const int steps = (depth + few_depth - 1) / few_depth;
  return {steps * part / parts, steps * (part + 1) / parts};
}

UNMASK_DEVICE few_source source_of_part(const few_parts_params& p, int first_column,
                                        const part_of_k& part, int computing) {
  const int t = static_cast<int>(thread_index()) - computing, row = t / few_pieces,
            k = part.first * few_depth + t % few_pieces * 8;
  const std::int64_t depth = p.depth;
  return {p.x + row * depth + k,
          p.w + (first_column + row) * depth + k,
          few_at_once * depth,
          few_at_once * depth,
          few_rows_of_thread(p.rows - row),
          few_rows_of_thread(p.columns - first_column - row),
          part.end - part.first,
          p.depth - k,
          p.w};
}

// Leaves the sums where the cluster's blocks read them.
template <class shape>
UNMASK_DEVICE void leave_parts(float* left, const few_sums<shape>& sums) {
  static_assert(sizeof(float) * shape::rows * shape::pitch <= few_shared_bytes<shape>);
  const int lane = lane_index(), warp = warp_index();
  float* to =
      left + lane % 4 * 2 * shape::pitch + warp / 4 * shape::each * 64 + warp % 4 * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < shape::each; ++i) {
#pragma unroll
    for (int n = 0; n < shape::rows / 8; ++n) {
      const float(&s)[4] = sums[i][n];
      float* at = to + n * 8 * shape::pitch + i * 64;
      at[0] = s[0];
      at[shape::pitch] = s[1];
      at[8] = s[2];
      at[shape::pitch + 8] = s[3];
    }
  }
}

// Adds the parts of the block's rows, every fourth or eighth one: a thread has four columns.
template <class shape>
UNMASK_DEVICE void add_parts(const few_parts_params& p, int first_column, const float* left) {
  constexpr int quads = shape::weights / 4, rows_at_once = shape::computing / quads;
  const int t = static_cast<int>(thread_index()), column = t % quads * 4;
  if (first_column + column >= p.columns) return;
  for (int row = cluster_rank() + t / quads * shape::parts; row < p.rows;
       row += rows_at_once * shape::parts) {
    float* to = p.y + row * p.y_stride + first_column + column;
    float parts[shape::parts][4];
    const float_quad before = p.adds ? word_at<float_quad>(to) : float_quad{};
#pragma unroll
    for (int part = 0; part < shape::parts; ++part) {
      read_peer(parts[part], left + row * shape::pitch + column, part);
    }
    float_quad sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum.x[i] = parts[0][i];
#pragma unroll
      for (int part = 1; part < shape::parts; ++part) sum.x[i] += parts[part][i];
      if (p.adds) sum.x[i] += before.x[i];
    }
    word_at<float_quad>(to) = sum;
  }
}

// Lanes without columns come to the barrier with the others of their warp.
UNMASK_DEVICE void meet_in_cluster() {
  sync_warp();
  sync_cluster();
}

template <class shape>
UNMASK_DEVICE void compute_part(const few_parts_params& p, int first_column, int steps,
                                const std::uint16_t* w, std::uint16_t* x) {
  auto* left = reinterpret_cast<float*>(x);
  {
    few_sums<shape> sums;
    multiply_few_rows<shape>(steps, x, w, sums);
    sync_named(shape::done, shape::computing);  // the stages have been read
    leave_parts<shape>(left, sums);
  }
  meet_in_cluster();  // every block has left its sums
  wait_for_launches();
  add_parts<shape>(p, first_column, left);
  meet_in_cluster();  // and every block has read them
}

// Blocks: few_parts_blocks(columns, parts), in clusters. Only Hopper's machine code has it (ops/few_parts.cu).
template <int tile_rows, int parts>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS((parts_shape<tile_rows, parts>::threads), 1)
    few_parts_kernel([[maybe_unused]] few_parts_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using shape = parts_shape<tile_rows, parts>;
  shared_allocator shared;
  std::uint16_t* x = shared.take<std::uint16_t>(shape::stages * few_x_tile<shape>).data();
  std::uint16_t* w = shared.take<std::uint16_t>(shape::stages * few_w_tile<shape>).data();
  let_next_start();
  const int first_column = static_cast<int>(block_index()) / parts * shape::weights;
  const part_of_k part = part_of(p.depth, cluster_rank(), parts);
  if (shuffle(warp_index() / 4, 0) == shape::computing / 128) {
    if constexpr (shape::moves_registers) give_registers<40>();
    copy_few_rows<shape>(source_of_part(p, first_column, part, shape::computing), x, w);
    meet_in_cluster();
    meet_in_cluster();
  } else {
    if constexpr (shape::moves_registers) take_registers<232>();
    compute_part<shape>(p, first_column, part.end - part.first, w, x);
  }
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
