// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ragged paged attention on tensor cores (mma.sync m16n8k16, sm_80 and later): bfloat16 queries,
// keys and values, float32 scores, sums and results. After FlashAttention-2: a warp owns 16 or 32
// packed rows (tokens x the heads that share a kv head), the block walks the keys in tiles of 64
// that cp.async brings in `stages` ahead, scores stay in registers and become the left operand of
// the product with V. With 32 rows a fragment of K or V that was read from shared memory serves two
// products instead of one, which is what limits wide batches of rows (prefill, refresh).
//
// A tile of keys that are not listed is one page: its address is looked up once, not for every 16
// bytes. Under a causal or block-causal mask, tiles that no row of the item sees are not loaded,
// and only tiles that some row sees in part are masked element by element.
//
// Shared memory: queries [16 or 32 x warps, dim], keys and values [stages][64, dim], bfloat16, rows
// of dim / 8 pieces of 16 bytes, and an integer for every row of queries. Piece c of row r lies at
// c ^ (r & 7): the eight rows that one ldmatrix phase reads fall into different banks.
//
// By warpgroups (wgmma, sm_90a), 128 packed rows of 128 dimensions: two warpgroups of 64 rows,
// whose warps hold 16 rows as above, so that everything but the products and the places in shared
// memory is the same. Tensor cores read keys, values and queries from there themselves, in tiles of
// 64 dimensions one behind the other; two blocks run at once, and multiply while others
// exponentiate. Clusters take one warpgroup (attention_cluster_kernels.h).
#pragma once

#include "kernels/cuda/attention_tensor_plan.h"

namespace unmask::cuda::UNMASK_TARGET {

template <int dim>
UNMASK_DEVICE int swizzled_piece(int row, int piece) {
  return row * dim + ((piece ^ (row & 7)) << 3);
}

// The shape of a kernel whose tiles have `rows` rows.
template <int dim, bool groups>
UNMASK_DEVICE int tensor_place(int rows, int row, int piece) {
  if (!groups) return swizzled_piece<dim>(row, piece);
  return (piece / 8 * rows + row) * 64 + (((piece ^ row) & 7) << 3);
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

// Returns which keys tokens first .. last see together. They index `position`, and may be in any
// order.
UNMASK_DEVICE visible_slots visible_to(const attention_params& p, int first, int last) {
  visible_slots seen{0x7FFFFFFF, 0};
  for (int i = first + lane_index(); i <= last; i += warp_size) {
    const int end = slots_seen(p, p.position[i]);
    seen.all = end < seen.all ? end : seen.all;
    seen.none = end > seen.none ? end : seen.none;
  }
  return {warp_min(seen.all), warp_max(seen.none)};
}

// One item of the work list: `item_rows` packed rows of one sequence and kv head, with all of its
// keys or one chunk of them.
struct tensor_item {
  int sequence, keys, splits, split, kv_head, first_packed, first_row, packed;
  int group;  // heads that share a kv head
};

// rows_fastest: uses p.rows_fastest (attention_tensor_plan.h).
template <bool rows_fastest>
UNMASK_DEVICE tensor_item tensor_item_of(const attention_params& p, std::int32_t item,
                                         int item_rows, int group) {
  tensor_item w;
  w.group = group;
  w.sequence = sequence_of(p.item_begin, p.sequences, item);
  w.keys = p.keys_of[w.sequence];
  w.splits = p.splits_of[w.sequence];
  const int rest = item - p.item_begin[w.sequence];
  w.split = rest % w.splits;
  w.first_row = p.row_begin[w.sequence];
  w.packed = (p.row_begin[w.sequence + 1] - w.first_row) * group;
  if constexpr (rows_fastest) {
    const tile_and_head at = tile_at(p, (w.packed + item_rows - 1) / item_rows, rest / w.splits);
    w.kv_head = at.kv_head;
    w.first_packed = at.tile * item_rows;
  } else {
    w.kv_head = rest / w.splits % p.kv_heads;
    w.first_packed = rest / w.splits / p.kv_heads * item_rows;
  }
  return w;
}

// Returns how many rows of an item see keys base .. base + 63 under a block mask: 0 none, 1 some, 2
// all. Cache slots are positions here. Every warp computes the same.
struct tile_view {
  const block_mask& mask;
  int sequence, heads, first_head, group, first_block, last_block;  // of query positions
};
UNMASK_DEVICE int tile_seen(const tile_view& v, int base, int last_key) {
  const int first = base / v.mask.size;
  const int end = base + tensor_keys < last_key ? base + tensor_keys : last_key;
  const int keys = (end - 1) / v.mask.size - first + 1, rows = v.last_block - v.first_block + 1;
  bool some = false, all = true;
  for (int i = lane_index(); i < v.group * rows * keys; i += warp_size) {
    const std::int64_t line =
        (static_cast<std::int64_t>(v.sequence) * v.heads + v.first_head + i / (rows * keys)) *
            v.mask.blocks +
        v.first_block + i / keys % rows;
    const bool kept = v.mask.keep[line * v.mask.blocks + first + i % keys] != 0;
    some = some || kept;
    all = all && kept;
  }
  return warp_vote(some) == 0 ? 0 : (warp_vote(!all) == 0 ? 2 : 1);
}

// Returns the first key of the next tile from `at` on that some row sees.
UNMASK_DEVICE int next_tile(const tile_view& v, bool masked, int at, int last_key) {
  while (masked && at < last_key && tile_seen(v, at, last_key) == 0) at += tensor_keys;
  return at;
}

// Packs the weights of 16 keys, which are sums of one product, as the left operand of the next
// product.
UNMASK_DEVICE void pack_weights(std::uint32_t (&a)[4], const float (&x)[4], const float (&y)[4]) {
  a[0] = pack_bf16(x[0], x[1]);
  a[1] = pack_bf16(x[2], x[3]);
  a[2] = pack_bf16(y[0], y[1]);
  a[3] = pack_bf16(y[2], y[3]);
}

// row_tiles: tiles of 16 rows that a warp owns. sparse: there is a mask of blocks, whose size is a
// multiple of 8, and tiles that no row sees are not loaded. groups: computes by warpgroups, for
// keys that are not listed.
template <int dim_, int warps, int stages_, int row_tiles_, bool sparse_, bool groups_>
struct tensor_shape {
  static constexpr int dim = dim_, stages = stages_, row_tiles = row_tiles_;
  static constexpr bool sparse = sparse_, groups = groups_, rows_fastest = false;
  static constexpr int threads = warps * warp_size, pieces = dim / 8, steps = dim / 16;
  static constexpr int warp_rows = 16 * row_tiles, item_rows = warps * warp_rows;
  static constexpr int tile = tensor_keys * dim;
  // With 128 dimensions a warp holds the scores of half a tile, because the sums of 32 rows take
  // the rest of its registers. The bits of a row may not depend on how many rows a warp has.
  static constexpr int score_keys = dim > 64 && !groups ? tensor_keys / 2 : tensor_keys;
  static_assert(stages == 2);
  static_assert(!groups || (dim == 128 && warps % 4 == 0 && row_tiles == 1));
};

// The scores of a tile or of half of it. In every row tile of its warp a lane holds two rows, lane
// / 4 and lane / 4 + 8, and in each of them two columns of every eight.
template <class shape>
using tensor_scores = float[shape::row_tiles][shape::score_keys / 8][4];

// Sums over the keys so far: the output o, the largest score m and the sum of weights l of each
// row.
template <class shape>
struct tensor_sums {
  float o[shape::row_tiles][shape::dim / 8][4], m[shape::row_tiles][2], l[shape::row_tiles][2];
};

// Returns row h (0 or 1) of a lane in row tile i, counted from packed row `first`.
template <class shape>
UNMASK_DEVICE int packed_row(int first, int i, int h) {
  return first + warp_index() * shape::warp_rows + i * 16 + lane_index() / 4 + h * 8;
}

// The part of an item that a block works on: keys first_key .. last_key. Every row sees the keys
// below `unmasked`.
struct tensor_span {
  int first_key, last_key, unmasked;
};

// Returns whether keys are listed one by one. It reads the parameters each time, which all threads
// share.
template <class shape>
UNMASK_DEVICE bool is_listed(const attention_params& p) {
  return !shape::groups && p.key_begin != nullptr;
}

// Leaves out the keys that the mask hides from all rows of the item.
template <class shape>
UNMASK_DEVICE tensor_span seen_of(const attention_params& p, const tensor_item& w, int first_key,
                                  int last_key) {
  const int group = w.group;
  tensor_span span;
  span.first_key = first_key;
  span.last_key = last_key;
  span.unmasked = p.mask == mask_kind::full ? span.last_key : span.first_key;
  if (p.mask != mask_kind::full && !is_listed<shape>(p)) {
    const int end = w.first_packed + shape::item_rows;
    const int behind = end < w.packed ? end : w.packed;
    const visible_slots seen =
        visible_to(p, w.first_row + w.first_packed / group, w.first_row + (behind - 1) / group);
    span.last_key = seen.none < span.last_key ? seen.none : span.last_key;
    span.last_key = span.last_key < span.first_key ? span.first_key : span.last_key;
    span.unmasked = seen.all < span.last_key ? seen.all : span.last_key;
  }
  return span;
}

template <class shape>
UNMASK_DEVICE tensor_span span_of(const attention_params& p, const tensor_item& w) {
  const int share = p.split_keys[w.sequence], first = w.split * share;
  return seen_of<shape>(p, w, first, first + share < w.keys ? first + share : w.keys);
}

// The block mask as the rows of an item meet it.
template <class shape>
UNMASK_DEVICE tile_view view_of(const attention_params& p, const tensor_item& w) {
  const int group = w.group, end = w.first_packed + shape::item_rows;
  const int behind = end < w.packed ? end : w.packed;
  return {p.tiles,
          w.sequence,
          p.heads,
          w.kv_head * group,
          group,
          shape::sparse ? p.position[w.first_row + w.first_packed / group] / p.tiles.size : 0,
          shape::sparse ? p.position[w.first_row + (behind - 1) / group] / p.tiles.size : 0};
}

// Starts the copies of a tile of keys that are in one page. Fills what is after the last key with
// zeros, because a NaN there would survive its weight of 0.
template <class shape>
UNMASK_DEVICE void copy_page(const attention_params& p, const tensor_item& w, int base,
                             int last_key, std::uint16_t* key, std::uint16_t* value) {
  // A thread copies the same piece of every few rows: nothing but the swizzle differs.
  constexpr int pieces = shape::pieces, apart = shape::threads / pieces;
  static_assert((apart & (apart - 1)) == 0);
  static_assert(!shape::groups || apart % 8 == 0);
  const int t = static_cast<int>(thread_index());
  const int row = t / pieces, first = t % pieces ^ (row & 7);
  const int place =
      shape::groups ? tensor_place<shape::dim, true>(tensor_keys, row, t % pieces) : 0;
  const int column = w.kv_head * shape::dim + t % pieces * 8;
  const std::uint16_t* k_from = static_cast<const std::uint16_t*>(p.keys.data) +
                                slot_offset(p.keys, p.place, w.sequence, base) +
                                row * p.keys.width + column;
  const std::uint16_t* v_from = static_cast<const std::uint16_t*>(p.values.data) +
                                slot_offset(p.values, p.place, w.sequence, base) +
                                row * p.values.width + column;
#pragma unroll
  for (int i = 0; i < tensor_keys / apart; ++i) {
    const bool there = base + row + i * apart < last_key;
    const int to = shape::groups
                       ? place + i * apart * 64
                       : (row + i * apart) * shape::dim + ((first ^ (i * apart & 7)) << 3);
    copy_async_16(key + to, k_from, there);
    copy_async_16(value + to, v_from, there);
    k_from += apart * p.keys.width;
    v_from += apart * p.values.width;
  }
}

// The same of keys that are listed one by one.
template <class shape>
UNMASK_DEVICE void copy_listed(const attention_params& p, const tensor_item& w, int base,
                               int last_key, std::uint16_t* key, std::uint16_t* value) {
  constexpr int dim = shape::dim, pieces = shape::pieces;
#pragma unroll(shape::row_tiles == 1 ? 4 : 1)
  for (int c = static_cast<int>(thread_index()); c < tensor_keys * pieces; c += shape::threads) {
    const int row = c / pieces, piece = c % pieces;
    const bool there = base + row < last_key;
    const std::int32_t slot = there ? slot_of_key(p, w.sequence, base + row) : 0;
    const std::uint16_t* k_from = static_cast<const std::uint16_t*>(p.keys.data) +
                                  slot_offset(p.keys, p.place, w.sequence, slot) + w.kv_head * dim;
    const std::uint16_t* v_from = static_cast<const std::uint16_t*>(p.values.data) +
                                  slot_offset(p.values, p.place, w.sequence, slot) +
                                  w.kv_head * dim;
    const int to = swizzled_piece<dim>(row, piece);
    copy_async_16(key + to, k_from + piece * 8, there);
    copy_async_16(value + to, v_from + piece * 8, there);
  }
}

template <class shape>
UNMASK_DEVICE void copy_tile(const attention_params& p, const tensor_item& w, int base,
                             int last_key, std::uint16_t* key, std::uint16_t* value) {
  if (!is_listed<shape>(p)) {
    copy_page<shape>(p, w, base, last_key, key, value);
  } else if constexpr (!shape::groups) {
    copy_listed<shape>(p, w, base, last_key, key, value);
  }
}

// Starts the copies of the queries of an item.
template <class shape>
UNMASK_DEVICE void copy_queries(const attention_params& p, const tensor_item& w,
                                std::uint16_t* query) {
  constexpr int pieces = shape::pieces;
  const int group = w.group;
#pragma unroll(shape::groups ? 1 : 8)
  for (int c = static_cast<int>(thread_index()); c < shape::item_rows * pieces;
       c += shape::threads) {
    const int row = c / pieces, piece = c % pieces, at = w.first_packed + row;
    const std::int64_t from =
        (w.first_row + at / group) * p.q_stride +
        static_cast<std::int64_t>(w.kv_head * group + at % group) * shape::dim + piece * 8;
    const bool there = at < w.packed;
    copy_async_16(query + tensor_place<shape::dim, shape::groups>(shape::item_rows, row, piece),
                  static_cast<const std::uint16_t*>(p.q) + (there ? from : 0), there);
  }
}

// Notes which slots each row of an item sees.
template <class shape>
UNMASK_DEVICE void note_slots(const attention_params& p, const tensor_item& w,
                              const shared_array<std::int32_t>& slots) {
  const int t = static_cast<int>(thread_index());
  if (p.mask == mask_kind::full || t >= shape::item_rows) return;
  const int at = w.first_packed + t < w.packed ? w.first_packed + t : w.packed - 1;
  slots[t] = slots_seen(p, p.position[w.first_row + at / w.group]);
}

template <class shape>
UNMASK_DEVICE void clear_sums(tensor_sums<shape>& sums) {
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int d = 0; d < shape::dim / 8; ++d) {
      sums.o[i][d][0] = sums.o[i][d][1] = sums.o[i][d][2] = sums.o[i][d][3] = 0;
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sums.m[i][h] = -INFINITY;
      sums.l[i][h] = 0;
    }
  }
}

// score = Q K^T by warpgroups.
template <class shape>
UNMASK_DEVICE void multiply_keys_by_groups(tensor_scores<shape>& score, const std::uint16_t* query,
                                           const std::uint16_t* k) {
  // The same in all lanes, as the compiler can see: addresses then take no registers of them.
  const std::uint16_t* q = query + shuffle(warp_index() / 4, 0) * 64 * 64;
  wgmma_begin(score);
#pragma unroll
  for (int step = 0; step < shape::steps; ++step) {
    const int half = step / 4, column = step % 4 * 16;
    wgmma_64x64x16(score[0], q + half * shape::item_rows * 64 + column,
                   k + half * tensor_keys * 64 + column);
  }
  wgmma_commit();
  wgmma_wait<0>();
}

// score = Q K^T by warps.
template <class shape>
UNMASK_DEVICE void multiply_keys_by_warps(tensor_scores<shape>& score, const std::uint16_t* query,
                                          const std::uint16_t* k) {
  constexpr int dim = shape::dim, row_tiles = shape::row_tiles;
  const int lane = lane_index(), first_row = warp_index() * shape::warp_rows;
#pragma unroll
  for (int step = 0; step < shape::steps; ++step) {
    std::uint32_t q[row_tiles][4];  // read again for every tile of keys: fewer registers
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      load_matrix_x4(
          q[i], query + swizzled_piece<dim>(first_row + i * 16 + lane % 16, step * 2 + lane / 16));
    }
#pragma unroll
    for (int n = 0; n < shape::score_keys / 16; ++n) {
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
}

// score = Q K^T.
template <class shape>
UNMASK_DEVICE void multiply_keys(tensor_scores<shape>& score, const std::uint16_t* query,
                                 const std::uint16_t* k) {
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int n = 0; n < shape::score_keys / 8; ++n) {
      score[i][n][0] = score[i][n][1] = score[i][n][2] = score[i][n][3] = 0;
    }
  }
  if constexpr (shape::groups) {
    multiply_keys_by_groups<shape>(score, query, k);
  } else {
    multiply_keys_by_warps<shape>(score, query, k);
  }
}

// Removes the scores of keys from `base` on that are after the last key or that a row does not see.
// seen: cache slots that each row sees.
template <class shape>
UNMASK_DEVICE void mask_slots(tensor_scores<shape>& score, const int (&seen)[shape::row_tiles][2],
                              int base, int last_key) {
  const int column = base + lane_index() % 4 * 2;
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int end = (last_key < seen[i][h] ? last_key : seen[i][h]) - column;
#pragma unroll
      for (int n = 0; n < shape::score_keys / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (n * 8 + e >= end) score[i][n][2 * h + e] = -INFINITY;
        }
      }
    }
  }
}

// The same of keys that are listed one by one.
template <class shape>
UNMASK_DEVICE void mask_listed(tensor_scores<shape>& score, const int (&seen)[shape::row_tiles][2],
                               const attention_params& p, int sequence, int base, int last_key) {
  const int column = base + lane_index() % 4 * 2;
#pragma unroll
  for (int n = 0; n < shape::score_keys / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int at = column + n * 8 + e;
      const std::int32_t slot = at < last_key ? slot_of_key(p, sequence, at) : 0x7FFFFFFF;
#pragma unroll
      for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          if (slot >= seen[i][h]) score[i][n][2 * h + e] = -INFINITY;
        }
      }
    }
  }
}

// Masks a tile of which some row sees only a part. slots: cache slots that each row of the item
// sees.
template <class shape>
UNMASK_DEVICE void mask_tile(tensor_scores<shape>& score, const attention_params& p,
                             const tensor_item& w, int base, int last_key,
                             const shared_array<std::int32_t>& slots) {
  int seen[shape::row_tiles][2];  // read here, because few tiles are masked
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      seen[i][h] = p.mask == mask_kind::full ? 0x7FFFFFFF : slots[packed_row<shape>(0, i, h)];
    }
  }
  if (is_listed<shape>(p)) {
    mask_listed<shape>(score, seen, p, w.sequence, base, last_key);
  } else {
    mask_slots<shape>(score, seen, base, last_key);
  }
}

// Removes the scores of keys from `base` on that are in a block that the head of a row does not
// keep.
template <class shape>
UNMASK_DEVICE void mask_blocks(tensor_scores<shape>& score, const attention_params& p,
                               const tensor_item& w, int base, int last_key) {
  const int group = w.group;
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int mine = packed_row<shape>(w.first_packed, i, h);
      const int at = mine < w.packed ? mine : w.first_packed;
      const std::int64_t line =
          (static_cast<std::int64_t>(w.sequence) * p.heads + w.kv_head * group + at % group) *
              p.tiles.blocks +
          p.position[w.first_row + at / group] / p.tiles.size;
      const std::uint8_t* keep = p.tiles.keep + line * p.tiles.blocks;
#pragma unroll
      for (int n = 0; n < shape::score_keys / 8; ++n) {
        const int slot = base + n * 8;
        if (slot < last_key && keep[slot / p.tiles.size] != 0) continue;
        score[i][n][2 * h] = score[i][n][2 * h + 1] = -INFINITY;
      }
    }
  }
}

// Turns scores into weights exp(scale (score - m)), where m is the new largest score of each row.
// Adds the weights to l, and scales o to the new m.
template <class shape>
UNMASK_DEVICE void weigh(tensor_scores<shape>& score, tensor_sums<shape>& sums, float scale_log2) {
  constexpr int row_tiles = shape::row_tiles, columns = shape::score_keys / 8;
  float grow[row_tiles][2];  // of sums so far
  bool higher = false;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float top = sums.m[i][h];
#pragma unroll
      for (int n = 0; n < columns; ++n) {
        top = fmaxf(top, fmaxf(score[i][n][2 * h], score[i][n][2 * h + 1]));
      }
      top = fmaxf(top, shuffle_xor(top, 1));
      top = fmaxf(top, shuffle_xor(top, 2));
      const float base_log2 = top == -INFINITY ? 0.0F : top * scale_log2;
      // If the largest score is the old one, exp2 would not give exactly 1: the score is multiplied
      // and subtracted with one rounding, base_log2 had two, and the rest would scale every tile.
      grow[i][h] = sums.m[i][h] == top
                       ? 1.0F
                       : exp2_fast(fused_multiply_add(sums.m[i][h], scale_log2, -base_log2));
      higher = higher || grow[i][h] != 1.0F;
      sums.m[i][h] = top;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < columns; ++n) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e) {
          score[i][n][e] = exp2_fast(fused_multiply_add(score[i][n][e], scale_log2, -base_log2));
          sum += score[i][n][e];
        }
      }
      sums.l[i][h] = fused_multiply_add(sums.l[i][h], grow[i][h], sum);
    }
  }
  // After the first tile, few tiles hold the largest score of a row. To know it takes a register.
  if (!shape::groups && warp_vote(higher) == 0) return;
#pragma unroll
  for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
    for (int d = 0; d < shape::dim / 8; ++d) {
      sums.o[i][d][0] *= grow[i][0];
      sums.o[i][d][1] *= grow[i][0];
      sums.o[i][d][2] *= grow[i][1];
      sums.o[i][d][3] *= grow[i][1];
    }
  }
}

// o += W V by warpgroups.
template <class shape>
UNMASK_DEVICE void add_values_by_groups(tensor_sums<shape>& sums, const tensor_scores<shape>& score,
                                        const std::uint16_t* v) {
  std::uint32_t a[shape::score_keys / 16][4];
#pragma unroll
  for (int step = 0; step < shape::score_keys / 16; ++step) {
    pack_weights(a[step], score[0][2 * step], score[0][2 * step + 1]);
  }
  wgmma_begin(sums.o, a);
#pragma unroll
  for (int step = 0; step < shape::score_keys / 16; ++step) {
    wgmma_64x128x16(sums.o[0], a[step], v + step * 16 * 64, tensor_keys * 64 * 2);
  }
  wgmma_commit();
  wgmma_wait<0>();
}

// o += W V by warps: the weights are the left operand as they lie in registers.
template <class shape>
UNMASK_DEVICE void add_values_by_warps(tensor_sums<shape>& sums, const tensor_scores<shape>& score,
                                       const std::uint16_t* v) {
  constexpr int dim = shape::dim, row_tiles = shape::row_tiles;
  const int lane = lane_index();
#pragma unroll
  for (int step = 0; step < shape::score_keys / 16; ++step) {
    std::uint32_t a[row_tiles][4];
#pragma unroll
    for (int i = 0; i < row_tiles; ++i) {
      pack_weights(a[i], score[i][2 * step], score[i][2 * step + 1]);
    }
#pragma unroll
    for (int d = 0; d < dim / 16; ++d) {
      std::uint32_t b[4];
      load_matrix_x4_transposed(b,
                                v + swizzled_piece<dim>(step * 16 + lane % 16, d * 2 + lane / 16));
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
        mma_16816(sums.o[i][2 * d], a[i], b[0], b[1]);
        mma_16816(sums.o[i][2 * d + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// Adds the keys of a tile, or of half of it, to the sums. masked: the sequence has a block mask.
template <class shape>
UNMASK_DEVICE void add_keys(tensor_sums<shape>& sums, const attention_params& p,
                            const tensor_item& w, const tensor_span& span, const tile_view& view,
                            bool masked, int base, const shared_array<std::int32_t>& slots,
                            const std::uint16_t* query, const std::uint16_t* k,
                            const std::uint16_t* v) {
  tensor_scores<shape> score;
  multiply_keys<shape>(score, query, k);
  if (base + shape::score_keys > span.unmasked) {
    mask_tile<shape>(score, p, w, base, span.last_key, slots);
  }
  if (shape::sparse && masked && tile_seen(view, base, span.last_key) != 2) {
    mask_blocks<shape>(score, p, w, base, span.last_key);
  }
  weigh<shape>(score, sums, p.scale_log2);
  if constexpr (shape::groups) {
    add_values_by_groups<shape>(sums, score, v);
  } else {
    add_values_by_warps<shape>(sums, score, v);
  }
}

// Stores the result of an item: the output, or if its keys were cut, the part part_of() of all parts.
template <class shape, class F>
UNMASK_DEVICE void store_rows(const attention_params& p, const tensor_item& w, const F& part_of,
                              tensor_sums<shape>& sums) {
  constexpr int dim = shape::dim;
  const int lane = lane_index(), group = w.group;
#pragma unroll
  for (int i = 0; i < shape::row_tiles; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sums.l[i][h] += shuffle_xor(sums.l[i][h], 1);
      sums.l[i][h] += shuffle_xor(sums.l[i][h], 2);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = packed_row<shape>(w.first_packed, i, h);
      if (at >= w.packed) continue;
      const std::int64_t row = w.first_row + at / group;
      const int head = w.kv_head * group + at % group;
      const float factor = sums.l[i][h] == 0 ? 0.0F : 1.0F / sums.l[i][h];
      float* part = nullptr;
      if (w.splits > 1) {
        const std::int64_t of = part_of();
        part = p.partial + (of * shape::item_rows + at - w.first_packed) * (dim + 2);
      }
      const std::int64_t to = row * p.out_stride + static_cast<std::int64_t>(head) * dim;
#pragma unroll
      for (int d = 0; d < dim / 8; ++d) {
        const int e = d * 8 + lane % 4 * 2;
        const float x = sums.o[i][d][2 * h], y = sums.o[i][d][2 * h + 1];
        if (part != nullptr) {
          store_pair(part, dtype::f32, e, x, y);
        } else {
          store_pair(p.out, p.out_type, to + e, x * factor, y * factor);
        }
      }
      if (lane % 4 != 0) continue;
      float* kept = part != nullptr        ? part + dim
                    : p.softmax != nullptr ? p.softmax + (row * p.heads + head) * 2
                                           : nullptr;
      if (kept == nullptr) continue;
      kept[0] = sums.m[i][h] * p.scale;
      kept[1] = sums.l[i][h];
    }
  }
}

template <class shape>
UNMASK_DEVICE void store_sums(const attention_params& p, std::int32_t item, int group,
                              tensor_sums<shape>& sums) {
  // This is looked up again, because over the loop it would take registers that the sums need.
  const tensor_item w = tensor_item_of<shape::rows_fastest>(p, item, shape::item_rows, group);
  store_rows<shape>(
      p, w, [&] { return p.part_begin[w.sequence] + (item - p.item_begin[w.sequence]); }, sums);
}

// The shared memory of a block.
struct tensor_room {
  std::uint16_t *query, *key, *value;
  shared_array<std::int32_t> slots;  // cache slots that each row sees
};
template <class shape>
UNMASK_DEVICE tensor_room room_of(shared_allocator& shared) {
  tensor_room room;
  room.query = shared.take<std::uint16_t>(shape::item_rows * shape::dim).data();
  room.key = shared.take<std::uint16_t>(shape::stages * shape::tile).data();
  room.value = shared.take<std::uint16_t>(shape::stages * shape::tile).data();
  room.slots = shared.take<std::int32_t>(shape::item_rows);
  return room;
}

// Computes an item: loads its queries, and for each tile of its keys computes scores, weights and
// weighted values while the next tile is copied. started() runs while the first tile is copied.
template <class shape, class F>
UNMASK_DEVICE void compute_item(const attention_params& p, const tensor_item& w,
                                const tensor_span& span, const tensor_room& room,
                                tensor_sums<shape>& sums, const F& started) {
  constexpr int dim = shape::dim, score_keys = shape::score_keys;
  constexpr bool sparse = shape::sparse;
  const tile_view view = view_of<shape>(p, w);
  const bool masked = sparse && p.tiles.applies[w.sequence] != 0;
  // Without a block mask no tile is left out, and its place tells whose turn it is.
  const auto stage_of = [](int base, int turn) {
    return (sparse ? turn : base / tensor_keys) % shape::stages * shape::tile;
  };
  const auto load = [&](int base, int turn) {
    const int stage = stage_of(base, turn);
    copy_tile<shape>(p, w, base, span.last_key, room.key + stage, room.value + stage);
  };
  sync_block();  // the last item has been read
  note_slots<shape>(p, w, room.slots);
  int tile_key = next_tile(view, masked, span.first_key, span.last_key), turn = 0;
  if (tile_key < span.last_key) {  // else nobody waits for the copies
    copy_queries<shape>(p, w, room.query);
    load(tile_key, turn);
  }
  copy_async_commit();
  started();
  clear_sums<shape>(sums);
  for (int next = 0, part = 0; tile_key < span.last_key;) {
    if (part == 0) {
      copy_async_wait<0>();
      if (shape::groups) fence_shared_copies();
      sync_block();
      next = next_tile(view, masked, tile_key + tensor_keys, span.last_key);
      if (next < span.last_key) load(next, turn + 1);
      copy_async_commit();
    }
    const int at = stage_of(tile_key, turn) + part * score_keys * dim;
    const int base = tile_key + part * score_keys;
    add_keys<shape>(sums, p, w, span, view, masked, base, room.slots, room.query, room.key + at,
                    room.value + at);
    // The second half of the last tile is often after the last key. It would change no bit.
    if (score_keys < tensor_keys && part == 0 && base + score_keys < span.last_key) {
      part = 1;
      continue;
    }
    part = 0;
    tile_key = sparse ? next : tile_key + tensor_keys;
    ++turn;
  }
  copy_async_wait<0>();
}

// Computes one item after the other.
template <int dim, int warps, int stages, int row_tiles, bool sparse = false, bool groups = false>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(warps* warp_size, row_tiles == 1 ? 2 : 1)
    attention_tensor_kernel(attention_params p) {
  using shape = tensor_shape<dim, warps, stages, row_tiles, sparse, groups>;
  shared_allocator shared;
  const tensor_room room = room_of<shape>(shared);
  const int group = p.heads / p.kv_heads;
  const std::int32_t items = p.item_begin[p.sequences];
  for (std::int32_t item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const tensor_item w = tensor_item_of<shape::rows_fastest>(p, item, shape::item_rows, group);
    const tensor_span span = span_of<shape>(p, w);
    tensor_sums<shape> sums;
    compute_item<shape>(p, w, span, room, sums, [] {});
    store_sums<shape>(p, item, group, sums);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
