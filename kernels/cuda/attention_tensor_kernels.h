// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ragged paged attention on tensor cores (mma.sync m16n8k16, sm_80 and later): bfloat16 queries,
// keys and values, float32 scores, sums and results. After FlashAttention-2: a warp owns 16 packed
// rows (tokens x the heads that share a kv head), the block walks the keys in tiles of 64 that
// cp.async brings in `stages` ahead, scores stay in registers and become the left operand of the
// product with V.
//
// Shared memory: queries [16 warps, dim], keys and values [stages][64, dim], bfloat16, rows of
// dim / 8 pieces of 16 bytes. Piece c of row r lies at c ^ (r & 7): the eight rows that one
// ldmatrix phase reads fall into different banks.
#pragma once

#include "kernels/cuda/attention_params.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int tensor_keys = 64;  // keys per tile, one page when keys are not listed
static_assert(tensor_keys == kv_page_size && attention_chunk % tensor_keys == 0);

template <int dim>
UNMASK_DEVICE int swizzled_piece(int row, int piece) {
  return row * dim + ((piece ^ (row & 7)) << 3);
}

constexpr std::size_t tensor_shared_bytes(int dim, int warps, int stages) {
  return static_cast<std::size_t>(warps * 16 + stages * 2 * tensor_keys) *
         static_cast<std::size_t>(dim) * 2;
}

template <int dim, int warps, int stages>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(warps* warp_size, 2)
    attention_tensor_kernel(attention_params p) {
  constexpr int threads = warps * warp_size, pieces = dim / 8, steps = dim / 16;
  constexpr int tile = tensor_keys * dim;
  shared_allocator shared;
  std::uint16_t* query = shared.take<std::uint16_t>(warps * 16 * dim).data();
  std::uint16_t* key = shared.take<std::uint16_t>(stages * tile).data();
  std::uint16_t* value = shared.take<std::uint16_t>(stages * tile).data();
  const int t = static_cast<int>(thread_index()), lane = lane_index(), warp = warp_index();
  const int group = p.heads / p.kv_heads;
  const float scale_log2 = p.scale * 1.4426950408889634F;
  const auto* all_keys = static_cast<const std::uint16_t*>(p.keys.data);
  const auto* all_values = static_cast<const std::uint16_t*>(p.values.data);
  const std::int32_t items = p.item_begin[p.sequences];
  for (std::int32_t item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const int s = sequence_of(p.item_begin, p.sequences, item);
    const int keys = p.keys_of[s], splits = split_count(p, keys);
    int rest = item - p.item_begin[s];
    const int split = rest % splits;
    rest /= splits;
    const int kv_head = rest % p.kv_heads, first_packed = rest / p.kv_heads * (warps * 16);
    const int first_row = p.row_begin[s];
    const int packed = (p.row_begin[s + 1] - first_row) * group;
    const int first_key = splits > 1 ? split * attention_chunk : 0;
    const int last_key =
        splits > 1 && first_key + attention_chunk < keys ? first_key + attention_chunk : keys;
    const int tiles = (last_key - first_key + tensor_keys - 1) / tensor_keys;

    // Keys and values of one tile; places behind the last key are filled with zeros, because a NaN
    // there would survive its weight of 0.
    const auto load = [&](int j) {
      const int stage = j % stages * tile, base = first_key + j * tensor_keys;
#pragma unroll 4
      for (int c = t; c < tensor_keys * pieces; c += threads) {
        const int row = c / pieces, piece = c % pieces;
        const bool there = base + row < last_key;
        const std::int32_t slot = there ? slot_of_key(p, s, base + row) : 0;
        const std::int64_t k_at =
            there ? slot_offset(p.keys, p.place, s, slot) + kv_head * dim + piece * 8 : 0;
        const std::int64_t v_at =
            there ? slot_offset(p.values, p.place, s, slot) + kv_head * dim + piece * 8 : 0;
        const int to = stage + swizzled_piece<dim>(row, piece);
        copy_async_16(key + to, all_keys + k_at, there);
        copy_async_16(value + to, all_values + v_at, there);
      }
    };
    sync_block();  // the last item has been read
    for (int c = t; c < warps * 16 * pieces; c += threads) {
      const int row = c / pieces, piece = c % pieces, at = first_packed + row;
      std::uint32_t half[4] = {0, 0, 0, 0};
      if (at < packed) {
        const float* from = p.q + (first_row + at / group) * p.q_stride +
                            static_cast<std::int64_t>(kv_head * group + at % group) * dim +
                            piece * 8;
#pragma unroll
        for (int i = 0; i < 4; ++i) half[i] = pack_bf16(from[2 * i], from[2 * i + 1]);
      }
      auto* to = reinterpret_cast<std::uint32_t*>(query + swizzled_piece<dim>(row, piece));
#pragma unroll
      for (int i = 0; i < 4; ++i) to[i] = half[i];
    }
#pragma unroll
    for (int j = 0; j < stages - 1; ++j) {
      if (j < tiles) load(j);
      copy_async_commit();
    }

    // A lane holds two rows of its warp: lane / 4 and that + 8.
    float o[dim / 8][4], m[2] = {-INFINITY, -INFINITY}, l[2] = {0, 0};
#pragma unroll
    for (int d = 0; d < dim / 8; ++d) o[d][0] = o[d][1] = o[d][2] = o[d][3] = 0;
    int at[2];
    std::int32_t position[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      at[h] = first_packed + warp * 16 + lane / 4 + h * 8;
      position[h] = p.position[first_row + (at[h] < packed ? at[h] / group : 0)];
    }
    for (int j = 0; j < tiles; ++j) {
      copy_async_wait<stages - 2>();
      sync_block();
      const std::uint16_t* k = key + j % stages * tile;
      const std::uint16_t* v = value + j % stages * tile;
      if (j + stages - 1 < tiles) load(j + stages - 1);
      copy_async_commit();
      float score[8][4];
#pragma unroll
      for (int n = 0; n < 8; ++n) score[n][0] = score[n][1] = score[n][2] = score[n][3] = 0;
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        std::uint32_t q[4];  // read again for every tile: 32 registers fewer than keeping it
        load_matrix_x4(q, query + swizzled_piece<dim>(warp * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          std::uint32_t b[4];
          load_matrix_x4(b, k + swizzled_piece<dim>(n * 16 + (lane & 7) + ((lane >> 4) << 3),
                                                    step * 2 + ((lane >> 3) & 1)));
          mma_16816(score[2 * n], q, b[0], b[1]);
          mma_16816(score[2 * n + 1], q, b[2], b[3]);
        }
      }
      const int base = first_key + j * tensor_keys;
      if (base + tensor_keys > last_key || p.mask != mask_kind::full) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = base + n * 8 + lane % 4 * 2 + (e & 1);
            const bool seen =
                column < last_key && (p.mask == mask_kind::full ||
                                      admits(p, s, 0, position[e >> 1], slot_of_key(p, s, column)));
            if (!seen) score[n][e] = -INFINITY;
          }
        }
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float top = m[h];
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          top = fmaxf(top, fmaxf(score[n][2 * h], score[n][2 * h + 1]));
        }
        top = fmaxf(top, shuffle_xor(top, 1));
        top = fmaxf(top, shuffle_xor(top, 2));
        const float base_log2 = top == -INFINITY ? 0.0F : top * scale_log2;
        const float grow = exp2_fast(m[h] * scale_log2 - base_log2);
        m[h] = top;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            score[n][e] = exp2_fast(score[n][e] * scale_log2 - base_log2);
            sum += score[n][e];
          }
        }
        l[h] = l[h] * grow + sum;
#pragma unroll
        for (int d = 0; d < dim / 8; ++d) {
          o[d][2 * h] *= grow;
          o[d][2 * h + 1] *= grow;
        }
      }
#pragma unroll
      for (int step = 0; step < tensor_keys / 16; ++step) {
        const float(&x)[4] = score[2 * step];
        const float(&y)[4] = score[2 * step + 1];
        const std::uint32_t a[4] = {pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]),
                                    pack_bf16(y[0], y[1]), pack_bf16(y[2], y[3])};
#pragma unroll
        for (int d = 0; d < dim / 16; ++d) {
          std::uint32_t b[4];
          load_matrix_x4_transposed(
              b, v + swizzled_piece<dim>(step * 16 + lane % 16, d * 2 + lane / 16));
          mma_16816(o[2 * d], a, b[0], b[1]);
          mma_16816(o[2 * d + 1], a, b[2], b[3]);
        }
      }
    }
    copy_async_wait<0>();
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      l[h] += shuffle_xor(l[h], 1);
      l[h] += shuffle_xor(l[h], 2);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (at[h] >= packed) continue;
      const std::int64_t row = first_row + at[h] / group;
      const int head = kv_head * group + at[h] % group;
      const float factor = l[h] == 0 ? 0.0F : 1.0F / l[h];
      float* part = splits > 1 ? p.partial + partial_place(p, row, head, split) : nullptr;
      const std::int64_t to = row * p.out_stride + static_cast<std::int64_t>(head) * dim;
#pragma unroll
      for (int d = 0; d < dim / 8; ++d) {
        const int e = d * 8 + lane % 4 * 2;
        if (part != nullptr) {
          store_pair(part, dtype::f32, e, o[d][2 * h], o[d][2 * h + 1]);
        } else {
          store_pair(p.out, p.out_type, to + e, o[d][2 * h] * factor, o[d][2 * h + 1] * factor);
        }
      }
      if (part != nullptr && lane % 4 == 0) {
        part[dim] = m[h] * p.scale;
        part[dim + 1] = l[h];
      }
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
