// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ragged paged attention on tensor cores (mma.sync m16n8k16, sm_80 and later): bfloat16 queries,
// keys and values, float32 scores, sums and results. After FlashAttention-2: a warp owns 16 or 32
// packed rows (tokens x the heads that share a kv head), the block walks the keys in tiles of 64 that
// cp.async brings in `stages` ahead, scores stay in registers and become the left operand of the
// product with V. With 32 rows a fragment of K or V that was read from shared memory serves two
// products instead of one, which is what limits wide batches of rows (prefill, refresh).
//
// A tile of keys that are not listed is one page: its address is looked up once, not for every 16
// bytes. Under a causal or block-causal mask, tiles that no row of the item sees are not loaded, and
// only tiles that some row sees in part are masked element by element.
//
// Shared memory: queries [16 or 32 x warps, dim], keys and values [stages][64, dim], bfloat16, rows of
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

constexpr std::size_t tensor_shared_bytes(int dim, int rows, int stages) {
  return static_cast<std::size_t>(rows + stages * 2 * tensor_keys) * static_cast<std::size_t>(dim) *
         2;
}

// Which keys the rows of an item see under the mask: slots below `all` by every row, slots from
// `none` on by no row.
struct visible_slots {
  int all, none;
};

// First slot that a row at `position` does not see.
UNMASK_DEVICE int slots_seen(const attention_params& p, std::int32_t position) {
  if (p.mask == mask_kind::causal) return position + 1;
  return (position / p.mask_block + 1) * p.mask_block;
}

// Of tokens first .. last (rows of `position`), which need not stand in order.
UNMASK_DEVICE visible_slots visible_to(const attention_params& p, int first, int last) {
  visible_slots seen{0x7FFFFFFF, 0};
  for (int i = first + lane_index(); i <= last; i += warp_size) {
    const int end = slots_seen(p, p.position[i]);
    seen.all = end < seen.all ? end : seen.all;
    seen.none = end > seen.none ? end : seen.none;
  }
  return {warp_min(seen.all), warp_max(seen.none)};
}

// What an item of the work list is: `item_rows` packed rows of one sequence and kv head, over all of
// its keys or one chunk of them.
struct tensor_item {
  int sequence, keys, splits, split, kv_head, first_packed, first_row, packed;
};

UNMASK_DEVICE tensor_item tensor_item_of(const attention_params& p, std::int32_t item,
                                         int item_rows) {
  tensor_item w;
  w.sequence = sequence_of(p.item_begin, p.sequences, item);
  w.keys = p.keys_of[w.sequence];
  w.splits = split_count(p, w.keys);
  const int rest = item - p.item_begin[w.sequence];
  w.split = rest % w.splits;
  w.kv_head = rest / w.splits % p.kv_heads;
  w.first_packed = rest / w.splits / p.kv_heads * item_rows;
  w.first_row = p.row_begin[w.sequence];
  w.packed = (p.row_begin[w.sequence + 1] - w.first_row) * (p.heads / p.kv_heads);
  return w;
}

// row_tiles: of 16 rows that a warp owns.
template <int dim, int warps, int stages, int row_tiles>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(warps* warp_size, row_tiles == 1 && warps < 8 ? 2 : 1)
    attention_tensor_kernel(attention_params p) {
  constexpr int threads = warps * warp_size, pieces = dim / 8, steps = dim / 16;
  constexpr int warp_rows = 16 * row_tiles, item_rows = warps * warp_rows;
  constexpr int tile = tensor_keys * dim;
  shared_allocator shared;
  std::uint16_t* query = shared.take<std::uint16_t>(item_rows * dim).data();
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
    const tensor_item w = tensor_item_of(p, item, item_rows);
    const int s = w.sequence, keys = w.keys, splits = w.splits, kv_head = w.kv_head;
    const int first_packed = w.first_packed, first_row = w.first_row, packed = w.packed;
    const int first_key = splits > 1 ? w.split * attention_chunk : 0;
    int last_key =
        splits > 1 && first_key + attention_chunk < keys ? first_key + attention_chunk : keys;
    const bool listed = p.key_begin != nullptr;
    int unmasked = p.mask == mask_kind::full ? last_key : first_key;  // every row sees those below
    if (p.mask != mask_kind::full && !listed) {
      const int behind = first_packed + item_rows < packed ? first_packed + item_rows : packed;
      const visible_slots seen =
          visible_to(p, first_row + first_packed / group, first_row + (behind - 1) / group);
      last_key = seen.none < last_key ? seen.none : last_key;
      last_key = last_key < first_key ? first_key : last_key;
      unmasked = seen.all < last_key ? seen.all : last_key;
    }
    const int tiles = (last_key - first_key + tensor_keys - 1) / tensor_keys;

    // Keys and values of one tile; places behind the last key are filled with zeros, because a NaN
    // there would survive its weight of 0.
    const auto load = [&](int j) {
      const int stage = j % stages * tile, base = first_key + j * tensor_keys;
      const std::int32_t first_slot = listed ? 0 : base;
      const std::uint16_t* k_page =
          all_keys + slot_offset(p.keys, p.place, s, first_slot) + kv_head * dim;
      const std::uint16_t* v_page =
          all_values + slot_offset(p.values, p.place, s, first_slot) + kv_head * dim;
#pragma unroll(row_tiles == 1 ? 4 : 1)
      for (int c = t; c < tensor_keys * pieces; c += threads) {
        const int row = c / pieces, piece = c % pieces;
        const bool there = base + row < last_key;
        const std::uint16_t* k_from = k_page;
        const std::uint16_t* v_from = v_page;
        if (listed) {
          const std::int32_t slot = there ? slot_of_key(p, s, base + row) : 0;
          k_from = all_keys + slot_offset(p.keys, p.place, s, slot) + kv_head * dim;
          v_from = all_values + slot_offset(p.values, p.place, s, slot) + kv_head * dim;
        } else if (there) {
          k_from += row * p.keys.width;
          v_from += row * p.values.width;
        }
        const int to = stage + swizzled_piece<dim>(row, piece);
        copy_async_16(key + to, k_from + piece * 8, there);
        copy_async_16(value + to, v_from + piece * 8, there);
      }
    };
    sync_block();  // the last item has been read
    for (int c = t; c < item_rows * pieces; c += threads) {
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

    // A lane holds two rows of every row tile of its warp: lane / 4 and that + 8.
    float o[row_tiles][dim / 8][4], m[row_tiles][2], l[row_tiles][2];
    const auto packed_row = [&](int first, int i, int h) {
      return first + warp * warp_rows + i * 16 + lane / 4 + h * 8;
    };
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int d = 0; d < dim / 8; ++d) o[i][d][0] = o[i][d][1] = o[i][d][2] = o[i][d][3] = 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        m[i][h] = -INFINITY;
        l[i][h] = 0;
      }
    }
    for (int j = 0; j < tiles; ++j) {
      copy_async_wait<stages - 2>();
      sync_block();
      const std::uint16_t* k = key + j % stages * tile;
      const std::uint16_t* v = value + j % stages * tile;
      if (j + stages - 1 < tiles) load(j + stages - 1);
      copy_async_commit();
      float score[row_tiles][8][4];
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          score[i][n][0] = score[i][n][1] = score[i][n][2] = score[i][n][3] = 0;
        }
      }
#pragma unroll
      for (int step = 0; step < steps; ++step) {
        std::uint32_t q[row_tiles][4];  // read again for every tile of keys: fewer registers
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          load_matrix_x4(q[i], query + swizzled_piece<dim>(warp * warp_rows + i * 16 + lane % 16,
                                                           step * 2 + lane / 16));
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          std::uint32_t b[4];
          load_matrix_x4(b, k + swizzled_piece<dim>(n * 16 + (lane & 7) + ((lane >> 4) << 3),
                                                    step * 2 + ((lane >> 3) & 1)));
#pragma unroll
          for (int i = 0; i < row_tiles; ++i) {
            mma_16816(score[i][2 * n], q[i], b[0], b[1]);
            mma_16816(score[i][2 * n + 1], q[i], b[2], b[3]);
          }
        }
      }
      const int base = first_key + j * tensor_keys;
      if (base + tensor_keys > unmasked) {
        int seen[row_tiles][2];  // slots; looked up here, because few tiles are masked
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int at = packed_row(first_packed, i, h);
            seen[i][h] =
                p.mask == mask_kind::full
                    ? 0x7FFFFFFF
                    : slots_seen(p, p.position[first_row + (at < packed ? at / group : 0)]);
          }
        }
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int column = base + n * 8 + lane % 4 * 2 + (e & 1);
            const std::int32_t slot = column < last_key ? slot_of_key(p, s, column) : 0;
#pragma unroll
            for (int i = 0; i < row_tiles; ++i) {
              if (column >= last_key || slot >= seen[i][e >> 1]) score[i][n][e] = -INFINITY;
            }
          }
        }
      }
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float top = m[i][h];
#pragma unroll
          for (int n = 0; n < 8; ++n) {
            top = fmaxf(top, fmaxf(score[i][n][2 * h], score[i][n][2 * h + 1]));
          }
          top = fmaxf(top, shuffle_xor(top, 1));
          top = fmaxf(top, shuffle_xor(top, 2));
          const float base_log2 = top == -INFINITY ? 0.0F : top * scale_log2;
          const float grow = exp2_fast(m[i][h] * scale_log2 - base_log2);
          m[i][h] = top;
          float sum = 0;
#pragma unroll
          for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; ++e) {
              score[i][n][e] = exp2_fast(score[i][n][e] * scale_log2 - base_log2);
              sum += score[i][n][e];
            }
          }
          l[i][h] = l[i][h] * grow + sum;
#pragma unroll
          for (int d = 0; d < dim / 8; ++d) {
            o[i][d][2 * h] *= grow;
            o[i][d][2 * h + 1] *= grow;
          }
        }
      }
#pragma unroll
      for (int step = 0; step < tensor_keys / 16; ++step) {
        std::uint32_t a[row_tiles][4];
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          const float(&x)[4] = score[i][2 * step];
          const float(&y)[4] = score[i][2 * step + 1];
          a[i][0] = pack_bf16(x[0], x[1]);
          a[i][1] = pack_bf16(x[2], x[3]);
          a[i][2] = pack_bf16(y[0], y[1]);
          a[i][3] = pack_bf16(y[2], y[3]);
        }
#pragma unroll
        for (int d = 0; d < dim / 16; ++d) {
          std::uint32_t b[4];
          load_matrix_x4_transposed(
              b, v + swizzled_piece<dim>(step * 16 + lane % 16, d * 2 + lane / 16));
#pragma unroll
          for (int i = 0; i < row_tiles; ++i) {
            mma_16816(o[i][2 * d], a[i], b[0], b[1]);
            mma_16816(o[i][2 * d + 1], a[i], b[2], b[3]);
          }
        }
      }
    }
    copy_async_wait<0>();
    // Looked up again: held over the loop it would take registers that the sums need.
    const tensor_item to_item = tensor_item_of(p, item, item_rows);
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        l[i][h] += shuffle_xor(l[i][h], 1);
        l[i][h] += shuffle_xor(l[i][h], 2);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int at = packed_row(to_item.first_packed, i, h);
        if (at >= to_item.packed) continue;
        const std::int64_t row = to_item.first_row + at / group;
        const int head = to_item.kv_head * group + at % group;
        const float factor = l[i][h] == 0 ? 0.0F : 1.0F / l[i][h];
        float* part =
            to_item.splits > 1 ? p.partial + partial_place(p, row, head, to_item.split) : nullptr;
        const std::int64_t to = row * p.out_stride + static_cast<std::int64_t>(head) * dim;
#pragma unroll
        for (int d = 0; d < dim / 8; ++d) {
          const int e = d * 8 + lane % 4 * 2;
          if (part != nullptr) {
            store_pair(part, dtype::f32, e, o[i][d][2 * h], o[i][d][2 * h + 1]);
          } else {
            store_pair(p.out, p.out_type, to + e, o[i][d][2 * h] * factor,
                       o[i][d][2 * h + 1] * factor);
          }
        }
        if (part != nullptr && lane % 4 == 0) {
          part[dim] = m[i][h] * p.scale;
          part[dim + 1] = l[i][h];
        }
      }
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
