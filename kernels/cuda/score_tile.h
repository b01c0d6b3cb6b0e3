// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scores q . k of 16 rows and 64 keys by one warp on tensor cores, for kernels that want the scores
// themselves and not what they weigh: the attention mass of keys and of tiles. bfloat16 keys and
// queries.
#pragma once

#include "kernels/cuda/attention_tensor_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int score_warps = 4;  // of a block: they share the keys and have 16 rows each
constexpr int score_threads = score_warps * warp_size;
constexpr std::size_t score_shared_bytes(int dim) {
  return static_cast<std::size_t>(tensor_keys) * static_cast<std::size_t>(dim) * 2;
}

// Whether scores of a head of K can be made so.
inline bool has_score_tiles(const tensor_view& keys, std::int64_t dim) {
  return keys.type == dtype::bf16 && (dim == 64 || dim == 128) && in_groups(8, keys, dim);
}

// Keys first .. first + 63 of one kv head into shared memory by the block; zeros from `last` on.
// slot(i) is where key i lies.
template <int dim, class F>
UNMASK_DEVICE void load_score_keys(const cache_side& keys, const cache_place& place, int s,
                                   int kv_head, int first, int last, std::uint16_t* to,
                                   const F& slot) {
  constexpr int pieces = dim / 8;
  const auto* all = static_cast<const std::uint16_t*>(keys.data);
  for (int c = static_cast<int>(thread_index()); c < tensor_keys * pieces; c += score_threads) {
    const int row = c / pieces, piece = c % pieces;
    const bool there = first + row < last;
    const std::uint16_t* from =
        there ? all + slot_offset(keys, place, s, slot(first + row)) + kv_head * dim + piece * 8
              : all;
    copy_async_16(to + swizzled_piece<dim>(row, piece), from, there);
  }
  copy_async_commit();
  copy_async_wait<0>();
}

// The left operand: the warp's 16 rows, of which this lane holds parts of rows lane / 4 and that + 8.
// Null: zeros.
template <int dim>
UNMASK_DEVICE void load_score_rows(std::uint32_t (&a)[dim / 16][4], const std::uint16_t* row,
                                   const std::uint16_t* row_8) {
  const int column = lane_index() % 4 * 2;
#pragma unroll
  for (int step = 0; step < dim / 16; ++step) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint16_t* from = i % 2 == 0 ? row : row_8;
      const int at = step * 16 + i / 2 * 8 + column;
      a[step][i] = from != nullptr ? word_at<std::uint32_t>(from + at) : 0;
    }
  }
}

// score[n][e]: of row lane / 4 + e / 2 * 8 and key n * 8 + lane % 4 * 2 + e % 2.
template <int dim>
UNMASK_DEVICE void score_tile(float (&score)[8][4], const std::uint32_t (&a)[dim / 16][4],
                              const std::uint16_t* keys) {
  const int lane = lane_index();
#pragma unroll
  for (int n = 0; n < 8; ++n) score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
#pragma unroll
  for (int step = 0; step < dim / 16; ++step) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      std::uint32_t b[4];
      load_matrix_x4(b, keys + swizzled_piece<dim>(n * 16 + (lane & 7) + ((lane >> 4) << 3),
                                                   step * 2 + ((lane >> 3) & 1)));
      mma_16816(score[2 * n], a[step], b[0], b[1]);
      mma_16816(score[2 * n + 1], a[step], b[2], b[3]);
    }
  }
}

// Sums of the columns over the block's rows into total[64], by all threads; a barrier is behind it.
UNMASK_DEVICE void sum_columns(float (&sum)[8][2], const shared_array<float>& of_warps) {
  const int lane = lane_index(), warp = warp_index();
#pragma unroll
  for (int n = 0; n < 8; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float x = sum[n][e];
      x += shuffle_xor(x, 4);
      x += shuffle_xor(x, 8);
      x += shuffle_xor(x, 16);
      if (lane < 4) of_warps[warp * tensor_keys + n * 8 + lane * 2 + e] = x;
    }
  }
  sync_block();
}
UNMASK_DEVICE float column_total(const shared_array<float>& of_warps, int column) {
  float all = 0;
  for (int w = 0; w < score_warps; ++w) all += of_warps[w * tensor_keys + column];
  return all;
}
constexpr std::size_t column_shared_bytes = score_warps * tensor_keys * sizeof(float);

// key_mass_kernel on tensor cores: key_mass[j] += sum over the rows and heads of the sequence of
// softmax weight j, from the largest scores and sums that attention left. Blocks: sequences x
// pieces; a block takes every grid_size_y-th tile of 64 keys, for all rows and heads.
template <int dim>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(score_threads, 2)
    key_mass_tensor_kernel(attention_params p) {
  shared_allocator shared;
  std::uint16_t* tile = shared.take<std::uint16_t>(tensor_keys * dim).data();
  const shared_array<float> of_warps = shared.take<float>(score_warps * tensor_keys);
  const int s = static_cast<int>(block_index()), lane = lane_index(), warp = warp_index();
  const int keys = p.keys_of[s], group = p.heads / p.kv_heads;
  const float scale_log2 = p.scale * 1.4426950408889634F;
  std::int64_t first = p.keys_from[s];
  if (p.key_begin == nullptr) {
    for (int before = 0; before < s; ++before) first += p.keys_of[before];
  }
  const int first_row = p.row_begin[s];
  const int packed = (p.row_begin[s + 1] - first_row) * group;
  for (int base = static_cast<int>(block_index_y()) * tensor_keys; base < keys;
       base += static_cast<int>(grid_size_y()) * tensor_keys) {
    float sum[8][2];
#pragma unroll
    for (int n = 0; n < 8; ++n) sum[n][0] = sum[n][1] = 0;
    for (int kv_head = 0; kv_head < p.kv_heads; ++kv_head) {
      sync_block();  // the last head's keys have been read
      load_score_keys<dim>(p.keys, p.place, s, kv_head, base, keys, tile,
                           [&](int j) { return slot_of_key(p, s, j); });
      sync_block();
      for (int rows = warp * 16; rows < packed; rows += score_warps * 16) {
        const std::uint16_t* from[2];
        float top[2], factor[2];
        std::int32_t seen[2];  // slots
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int at = rows + lane / 4 + h * 8;
          const std::int64_t row = first_row + at / group;
          const int head = kv_head * group + at % group;
          from[h] = nullptr;
          factor[h] = 0;
          top[h] = 0;
          seen[h] = 0x7FFFFFFF;
          if (at >= packed) continue;
          from[h] = static_cast<const std::uint16_t*>(p.q) + row * p.q_stride +
                    static_cast<std::int64_t>(head) * dim;
          const float* kept = p.softmax + (row * p.heads + head) * 2;
          top[h] = kept[0] * 1.4426950408889634F;
          factor[h] = kept[1] > 0 ? 1.0F / kept[1] : 0.0F;
          if (p.mask != mask_kind::full) seen[h] = slots_seen(p, p.position[row]);
        }
        std::uint32_t a[dim / 16][4];
        load_score_rows<dim>(a, from[0], from[1]);
        float score[8][4];
        score_tile<dim>(score, a, tile);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int j = base + n * 8 + lane % 4 * 2 + e % 2;
            const float w =
                exp2_fast(fused_multiply_add(score[n][e], scale_log2, -top[e / 2])) * factor[e / 2];
            const bool hidden = j >= keys || factor[e / 2] == 0 ||
                                (p.mask != mask_kind::full && slot_of_key(p, s, j) >= seen[e / 2]);
            sum[n][e % 2] += hidden ? 0.0F : w;
          }
        }
      }
    }
    sum_columns(sum, of_warps);
    const int column = static_cast<int>(thread_index());
    if (column < tensor_keys && base + column < keys) {
      p.key_mass[first + base + column] += column_total(of_warps, column);
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
