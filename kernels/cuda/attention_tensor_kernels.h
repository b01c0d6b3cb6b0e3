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
// dim / 8 pieces of 16 bytes, and an integer for every row of queries. Piece c of row r lies at
// c ^ (r & 7): the eight rows that one ldmatrix phase reads fall into different banks.
//
// By warpgroups (wgmma, sm_90a), 128 packed rows of 128 dimensions: two warpgroups of 64 rows, whose
// warps hold 16 rows as above, so that everything but the products and the places in shared memory is
// the same. Tensor cores read keys, values and queries from there themselves, in tiles of 64
// dimensions one behind the other; two blocks run at once, and multiply while others exponentiate.
#pragma once

#include "kernels/cuda/attention_params.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int tensor_keys = 64;  // keys per tile, one page when keys are not listed
static_assert(tensor_keys == kv_page_size && attention_chunk % tensor_keys == 0);

template <int dim>
UNMASK_DEVICE int swizzled_piece(int row, int piece) {
  return row * dim + ((piece ^ (row & 7)) << 3);
}

// Of tiles with `rows` rows.
template <int dim, bool groups>
UNMASK_DEVICE int tensor_place(int rows, int row, int piece) {
  if (!groups) return swizzled_piece<dim>(row, piece);
  return (piece / 8 * rows + row) * 64 + (((piece ^ row) & 7) << 3);
}

constexpr std::size_t tensor_shared_bytes(int dim, int rows, int stages) {
  return static_cast<std::size_t>(rows + stages * 2 * tensor_keys) * static_cast<std::size_t>(dim) *
             2 +
         static_cast<std::size_t>(rows) * sizeof(std::int32_t);
}

// The work list: item_begin, and how the keys of each sequence are split. One block. The work of a
// batch is its tiles of rows times tiles of keys; a sequence whose keys are more than an even share
// of it is cut into pieces of about that share, so that a long context does not run alone at the
// end, and few sequences fill the device. An item's keys are never fewer than 512 for that.
UNMASK_KERNEL void tensor_plan_kernel(attention_params p) {
  shared_allocator shared;
  const auto sums = shared.take<std::int64_t>(plan_threads / warp_size);
  const auto scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const auto parts_scratch = shared.take<std::int32_t>(plan_threads / warp_size);
  const int group = p.heads / p.kv_heads, t = static_cast<int>(thread_index());
  const auto row_tiles = [&](int s) {
    const int packed = (p.row_begin[s + 1] - p.row_begin[s]) * group;
    return (packed + p.tile_rows - 1) / p.tile_rows * p.kv_heads;
  };
  std::int64_t work = 0;
  for (int s = t; s < p.sequences; s += plan_threads) {
    p.keys_of[s] = given_key_count(p, s);
    p.keys_from[s] = p.key_begin != nullptr ? p.key_begin[s] : 0;
    work +=
        static_cast<std::int64_t>(row_tiles(s)) * ((p.keys_of[s] + tensor_keys - 1) / tensor_keys);
  }
  work = block_sum(work, sums);
  constexpr int least = attention_chunk / tensor_keys;
  const std::int64_t even = (work + p.even_share - 1) / p.even_share;
  const std::int64_t share = even > least ? even : least;  // tiles of keys
  std::int32_t before = 0, parts_before = 0;
  for (int first = 0; first < p.sequences; first += plan_threads) {
    const int s = first + t;
    std::int32_t items = 0, splits = 1;
    if (s < p.sequences) {
      const int tiles = (p.keys_of[s] + tensor_keys - 1) / tensor_keys;
      if (p.most_parts > 0 && tiles > share) {
        splits = static_cast<std::int32_t>((tiles + share - 1) / share);
      }
      p.splits_of[s] = splits;
      p.split_keys[s] = ((tiles > 0 ? tiles : 1) + splits - 1) / splits * tensor_keys;
      items = row_tiles(s) * splits;
    }
    std::int32_t total = 0, parts = 0;
    const std::int32_t end = block_scan(items, scratch, &total);
    const std::int32_t parts_end = block_scan(splits > 1 ? items : 0, parts_scratch, &parts);
    if (s < p.sequences) {
      p.item_begin[s + 1] = before + end;
      p.part_begin[s + 1] = parts_before + parts_end;
    }
    before += total;
    parts_before += parts;
    sync_block();
  }
  if (t == 0) p.item_begin[0] = p.part_begin[0] = 0;
}

// Merges the splits of sequences that had several. One warp per (row, head), four elements a lane.
template <int dim>
UNMASK_KERNEL void UNMASK_THREADS(plan_threads) tensor_merge_kernel(attention_params p) {
  constexpr int per = dim / warp_size;
  const int rows = p.row_begin[p.sequences], group = p.heads / p.kv_heads, lane = lane_index();
  const int step = static_cast<int>(grid_size()) * (plan_threads / warp_size);
  for (std::int64_t at = block_index() * (plan_threads / warp_size) + warp_index();
       at < static_cast<std::int64_t>(rows) * p.heads; at += step) {
    const std::int64_t row = at / p.heads;
    const int h = static_cast<int>(at % p.heads);
    const int s = sequence_of(p.row_begin, p.sequences, static_cast<std::int32_t>(row));
    const int splits = p.splits_of[s];
    if (splits == 1) continue;
    const int packed = static_cast<int>(row - p.row_begin[s]) * group + h % group;
    const std::int64_t first =
        p.part_begin[s] +
        (static_cast<std::int64_t>(packed / p.tile_rows) * p.kv_heads + h / group) * splits;
    const auto part = [&](int split) {
      return p.partial + ((first + split) * p.tile_rows + packed % p.tile_rows) * (dim + 2);
    };
    float top = -INFINITY, sum = 0, total[per] = {};
    for (int split = 0; split < splits; ++split) top = fmaxf(top, part(split)[dim]);
    const float base = top == -INFINITY ? 0.0F : top;
    for (int split = 0; split < splits; ++split) {
      const float* from = part(split);
      const float scale = expf(from[dim] - base);
      sum = fused_multiply_add(from[dim + 1], scale, sum);
#pragma unroll
      for (int d = 0; d < per; d += 2) {
        const float_pair x = load_pair(from, dtype::f32, lane * 2 + d * warp_size);
        total[d] = fused_multiply_add(x.a, scale, total[d]);
        total[d + 1] = fused_multiply_add(x.b, scale, total[d + 1]);
      }
    }
    const float factor = sum == 0 ? 0.0F : 1.0F / sum;
    const std::int64_t to = row * p.out_stride + static_cast<std::int64_t>(h) * dim;
#pragma unroll
    for (int d = 0; d < per; d += 2) {
      store_pair(p.out, p.out_type, to + lane * 2 + d * warp_size, total[d] * factor,
                 total[d + 1] * factor);
    }
    if (p.softmax != nullptr && lane == 0) {
      p.softmax[at * 2] = top;
      p.softmax[at * 2 + 1] = sum;
    }
  }
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
  w.splits = p.splits_of[w.sequence];
  const int rest = item - p.item_begin[w.sequence];
  w.split = rest % w.splits;
  w.kv_head = rest / w.splits % p.kv_heads;
  w.first_packed = rest / w.splits / p.kv_heads * item_rows;
  w.first_row = p.row_begin[w.sequence];
  w.packed = (p.row_begin[w.sequence + 1] - w.first_row) * (p.heads / p.kv_heads);
  return w;
}

// Whether an item sees keys base .. base + 63 under a block mask: 0 no row of it, 2 every row, 1 some.
// Slots are positions. The work of a warp, the same in each.
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

// The weights of 16 keys, sums of a product, as the left operand of the next.
UNMASK_DEVICE void pack_weights(std::uint32_t (&a)[4], const float (&x)[4], const float (&y)[4]) {
  a[0] = pack_bf16(x[0], x[1]);
  a[1] = pack_bf16(x[2], x[3]);
  a[2] = pack_bf16(y[0], y[1]);
  a[3] = pack_bf16(y[2], y[3]);
}

// row_tiles: of 16 rows that a warp owns. sparse: there is a block mask, of blocks of a multiple of
// 8; tiles that no row sees are not loaded. groups: by warpgroups, of keys that are not listed.
template <int dim, int warps, int stages, int row_tiles, bool sparse = false, bool groups = false>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(warps* warp_size, row_tiles == 1 ? 2 : 1)
    attention_tensor_kernel(attention_params p) {
  static_assert(!groups || (dim == 128 && warps == 8 && row_tiles == 1));
  constexpr int threads = warps * warp_size, pieces = dim / 8, steps = dim / 16;
  constexpr int warp_rows = 16 * row_tiles, item_rows = warps * warp_rows;
  constexpr int tile = tensor_keys * dim;
  shared_allocator shared;
  std::uint16_t* query = shared.take<std::uint16_t>(item_rows * dim).data();
  std::uint16_t* key = shared.take<std::uint16_t>(stages * tile).data();
  std::uint16_t* value = shared.take<std::uint16_t>(stages * tile).data();
  const auto slots = shared.take<std::int32_t>(item_rows);  // that each row sees
  const int t = static_cast<int>(thread_index()), lane = lane_index(), warp = warp_index();
  const int group = p.heads / p.kv_heads;
  const auto* all_queries = static_cast<const std::uint16_t*>(p.q);
  const auto* all_keys = static_cast<const std::uint16_t*>(p.keys.data);
  const auto* all_values = static_cast<const std::uint16_t*>(p.values.data);
  const std::int32_t items = p.item_begin[p.sequences];
  for (std::int32_t item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const tensor_item w = tensor_item_of(p, item, item_rows);
    const int s = w.sequence, keys = w.keys, kv_head = w.kv_head;
    const int first_packed = w.first_packed, first_row = w.first_row, packed = w.packed;
    const int share = p.split_keys[s], first_key = w.split * share;
    int last_key = first_key + share < keys ? first_key + share : keys;
    const bool listed = !groups && p.key_begin != nullptr;
    int unmasked = p.mask == mask_kind::full ? last_key : first_key;  // every row sees those below
    if (p.mask != mask_kind::full && !listed) {
      const int behind = first_packed + item_rows < packed ? first_packed + item_rows : packed;
      const visible_slots seen =
          visible_to(p, first_row + first_packed / group, first_row + (behind - 1) / group);
      last_key = seen.none < last_key ? seen.none : last_key;
      last_key = last_key < first_key ? first_key : last_key;
      unmasked = seen.all < last_key ? seen.all : last_key;
    }
    const int behind_row = first_packed + item_rows < packed ? first_packed + item_rows : packed;
    const tile_view view{
        p.tiles,
        s,
        p.heads,
        kv_head * group,
        group,
        sparse ? p.position[first_row + first_packed / group] / p.tiles.size : 0,
        sparse ? p.position[first_row + (behind_row - 1) / group] / p.tiles.size : 0};
    const bool masked = sparse && p.tiles.applies[s] != 0;
    // The first key of the next tile from `at` on that some row sees.
    const auto next_tile = [&](int at) {
      while (masked && at < last_key && tile_seen(view, at, last_key) == 0) at += tensor_keys;
      return at;
    };

    // Without a block mask no tile is left out, and its place tells whose turn it is.
    const auto stage_of = [](int base, int turn) {
      return (sparse ? turn : base / tensor_keys) % stages * tile;
    };
    // Keys and values of one tile; places behind the last key are filled with zeros, because a NaN
    // there would survive its weight of 0.
    const auto load = [&](int base, int turn) {
      const int stage = stage_of(base, turn);
      if (!listed) {
        // A thread copies the same piece of every few rows: nothing but the swizzle differs.
        constexpr int apart = threads / pieces;
        static_assert((apart & (apart - 1)) == 0);
        const int row = t / pieces, first = t % pieces ^ (row & 7);
        static_assert(!groups || apart % 8 == 0);
        const int place = groups ? tensor_place<dim, true>(tensor_keys, row, t % pieces) : 0;
        const int column = kv_head * dim + t % pieces * 8;
        const std::uint16_t* k_from =
            all_keys + slot_offset(p.keys, p.place, s, base) + row * p.keys.width + column;
        const std::uint16_t* v_from =
            all_values + slot_offset(p.values, p.place, s, base) + row * p.values.width + column;
#pragma unroll
        for (int i = 0; i < tensor_keys / apart; ++i) {
          const bool there = base + row + i * apart < last_key;
          const int to =
              stage + (groups ? place + i * apart * 64
                              : (row + i * apart) * dim + ((first ^ (i * apart & 7)) << 3));
          copy_async_16(key + to, k_from, there);
          copy_async_16(value + to, v_from, there);
          k_from += apart * p.keys.width;
          v_from += apart * p.values.width;
        }
        return;
      }
      if constexpr (!groups) {
#pragma unroll(row_tiles == 1 ? 4 : 1)
        for (int c = t; c < tensor_keys * pieces; c += threads) {
          const int row = c / pieces, piece = c % pieces;
          const bool there = base + row < last_key;
          const std::int32_t slot = there ? slot_of_key(p, s, base + row) : 0;
          const std::uint16_t* k_from =
              all_keys + slot_offset(p.keys, p.place, s, slot) + kv_head * dim;
          const std::uint16_t* v_from =
              all_values + slot_offset(p.values, p.place, s, slot) + kv_head * dim;
          const int to = stage + swizzled_piece<dim>(row, piece);
          copy_async_16(key + to, k_from + piece * 8, there);
          copy_async_16(value + to, v_from + piece * 8, there);
        }
      }
    };
    sync_block();  // the last item has been read
    static_assert(stages == 2);
    if (p.mask != mask_kind::full && t < item_rows) {
      const int at = first_packed + t < packed ? first_packed + t : packed - 1;
      slots[t] = slots_seen(p, p.position[first_row + at / group]);
    }
    int tile_key = next_tile(first_key), turn = 0;
    if (tile_key < last_key) {  // else nobody waits for the copies
#pragma unroll(groups ? 1 : 8)
      for (int c = t; c < item_rows * pieces; c += threads) {
        const int row = c / pieces, piece = c % pieces, at = first_packed + row;
        const std::int64_t from = (first_row + at / group) * p.q_stride +
                                  static_cast<std::int64_t>(kv_head * group + at % group) * dim +
                                  piece * 8;
        const bool there = at < packed;
        copy_async_16(query + tensor_place<dim, groups>(item_rows, row, piece),
                      all_queries + (there ? from : 0), there);
      }
      load(tile_key, turn);
    }
    copy_async_commit();

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
    // Of 128 dimensions a warp holds the scores of half a tile: the sums of 32 rows take the rest of
    // its registers, and a row's bits may not depend on how many rows a warp has.
    constexpr int score_keys = dim > 64 && !groups ? tensor_keys / 2 : tensor_keys;
    for (int next = 0, part = 0; tile_key < last_key;) {
      if (part == 0) {
        copy_async_wait<0>();
        if (groups) fence_shared_copies();
        sync_block();
        next = next_tile(tile_key + tensor_keys);
        if (next < last_key) load(next, turn + 1);
        copy_async_commit();
      }
      const std::uint16_t* k = key + stage_of(tile_key, turn) + part * score_keys * dim;
      const std::uint16_t* v = value + stage_of(tile_key, turn) + part * score_keys * dim;
      float score[row_tiles][score_keys / 8][4];
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (int n = 0; n < score_keys / 8; ++n) {
          score[i][n][0] = score[i][n][1] = score[i][n][2] = score[i][n][3] = 0;
        }
      }
      if constexpr (groups) {
        // The same in all lanes, as the compiler can see: addresses then take no registers of them.
        const std::uint16_t* q = query + shuffle(warp / 4, 0) * 64 * 64;
        wgmma_begin(score);
#pragma unroll
        for (int step = 0; step < steps; ++step) {
          const int half = step / 4, column = step % 4 * 16;
          wgmma_64x64x16(score[0], q + half * item_rows * 64 + column,
                         k + half * tensor_keys * 64 + column);
        }
        wgmma_commit();
        wgmma_wait<0>();
      }
#pragma unroll
      for (int step = 0; step < (groups ? 0 : steps); ++step) {
        std::uint32_t q[row_tiles][4];  // read again for every tile of keys: fewer registers
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          load_matrix_x4(q[i], query + swizzled_piece<dim>(warp * warp_rows + i * 16 + lane % 16,
                                                           step * 2 + lane / 16));
        }
#pragma unroll
        for (int n = 0; n < score_keys / 16; ++n) {
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
      const int base = tile_key + part * score_keys;
      if (base + score_keys > unmasked) {
        const int column = base + lane % 4 * 2;
        int seen[row_tiles][2], end[row_tiles][2];  // read here, because few tiles are masked
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            seen[i][h] = p.mask == mask_kind::full ? 0x7FFFFFFF : slots[packed_row(0, i, h)];
            end[i][h] = (listed || last_key < seen[i][h] ? last_key : seen[i][h]) - column;
          }
        }
#pragma unroll
        for (int n = 0; n < score_keys / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int at = n * 8 + e;
            const std::int32_t slot =
                listed && column + at < last_key ? slot_of_key(p, s, column + at) : 0;
#pragma unroll
            for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
              for (int h = 0; h < 2; ++h) {
                if (at < end[i][h] && (!listed || slot < seen[i][h])) continue;
                score[i][n][2 * h + e] = -INFINITY;
              }
            }
          }
        }
      }
      if (sparse && masked && tile_seen(view, base, last_key) != 2) {
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int at = packed_row(first_packed, i, h) < packed ? packed_row(first_packed, i, h)
                                                                   : first_packed;
            const std::int64_t line =
                (static_cast<std::int64_t>(s) * p.heads + kv_head * group + at % group) *
                    p.tiles.blocks +
                p.position[first_row + at / group] / p.tiles.size;
            const std::uint8_t* keep = p.tiles.keep + line * p.tiles.blocks;
#pragma unroll
            for (int n = 0; n < score_keys / 8; ++n) {
              const int slot = base + n * 8;
              if (slot < last_key && keep[slot / p.tiles.size] != 0) continue;
              score[i][n][2 * h] = score[i][n][2 * h + 1] = -INFINITY;
            }
          }
        }
      }
      float grow[row_tiles][2];  // of sums so far
      bool higher = false;
#pragma unroll
      for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          float top = m[i][h];
#pragma unroll
          for (int n = 0; n < score_keys / 8; ++n) {
            top = fmaxf(top, fmaxf(score[i][n][2 * h], score[i][n][2 * h + 1]));
          }
          top = fmaxf(top, shuffle_xor(top, 1));
          top = fmaxf(top, shuffle_xor(top, 2));
          const float base_log2 = top == -INFINITY ? 0.0F : top * p.scale_log2;
          // Not by exp2 where the largest score is the old one: it is multiplied and subtracted from
          // with one rounding, base_log2 has had two, and what is left of 0 would scale every tile.
          grow[i][h] = m[i][h] == top
                           ? 1.0F
                           : exp2_fast(fused_multiply_add(m[i][h], p.scale_log2, -base_log2));
          higher = higher || grow[i][h] != 1.0F;
          m[i][h] = top;
          float sum = 0;
#pragma unroll
          for (int n = 0; n < score_keys / 8; ++n) {
#pragma unroll
            for (int e = 2 * h; e < 2 * h + 2; ++e) {
              score[i][n][e] =
                  exp2_fast(fused_multiply_add(score[i][n][e], p.scale_log2, -base_log2));
              sum += score[i][n][e];
            }
          }
          l[i][h] = fused_multiply_add(l[i][h], grow[i][h], sum);
        }
      }
      // Few tiles behind the first hold a row's largest score. To know it takes a register.
      if (groups || warp_vote(higher) != 0) {
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
#pragma unroll
          for (int d = 0; d < dim / 8; ++d) {
            o[i][d][0] *= grow[i][0];
            o[i][d][1] *= grow[i][0];
            o[i][d][2] *= grow[i][1];
            o[i][d][3] *= grow[i][1];
          }
        }
      }
      if constexpr (groups) {
        std::uint32_t a[score_keys / 16][4];
#pragma unroll
        for (int step = 0; step < score_keys / 16; ++step) {
          pack_weights(a[step], score[0][2 * step], score[0][2 * step + 1]);
        }
        wgmma_begin(o, a);
#pragma unroll
        for (int step = 0; step < score_keys / 16; ++step) {
          wgmma_64x128x16(o[0], a[step], v + step * 16 * 64, tensor_keys * 64 * 2);
        }
        wgmma_commit();
        wgmma_wait<0>();
      }
#pragma unroll
      for (int step = 0; step < (groups ? 0 : score_keys / 16); ++step) {
        std::uint32_t a[row_tiles][4];
#pragma unroll
        for (int i = 0; i < row_tiles; ++i) {
          pack_weights(a[i], score[i][2 * step], score[i][2 * step + 1]);
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
      // The second half of the last tile often lies behind the last key; it would change no bit.
      if (score_keys < tensor_keys && part == 0 && base + score_keys < last_key) {
        part = 1;
        continue;
      }
      part = 0;
      tile_key = sparse ? next : tile_key + tensor_keys;
      ++turn;
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
        float* part = nullptr;
        if (to_item.splits > 1) {
          const std::int64_t of =
              p.part_begin[to_item.sequence] + (item - p.item_begin[to_item.sequence]);
          part = p.partial + (of * item_rows + at - to_item.first_packed) * (dim + 2);
        }
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
        if (lane % 4 != 0) continue;
        float* kept = part != nullptr        ? part + dim
                      : p.softmax != nullptr ? p.softmax + (row * p.heads + head) * 2
                                             : nullptr;
        if (kept == nullptr) continue;
        kept[0] = m[i][h] * p.scale;
        kept[1] = l[i][h];
      }
    }
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
