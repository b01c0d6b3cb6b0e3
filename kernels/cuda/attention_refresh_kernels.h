// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention of many rows (prefill, refresh, whole sequences) by warpgroups, whose products overlap
// with exponentials, as in FlashAttention-3. An item is 128 packed rows of one sequence and kv
// head; two warpgroups of 64 rows compute, a third copies queries, keys and values, so that nothing
// of addresses is in the loop of the others.
//
// Within a warpgroup: while tensor cores multiply the weights of tile i - 1 by its values, the
// scores of tile i, whose product was started first, are weighed. Between the two: each starts its
// products when the other has started its own (ping-pong), so that one weighs while the other
// multiplies.
//
// Registers: a running product still reads its left operand, and ptxas does not know that. So the
// new weights are packed after the wait for the product that reads the old ones, in straight code.
// Nothing that is computed before the wait may be written into them.
//
// Shared memory: queries [128, dim], keys and values [2][128, dim], bfloat16, in tiles of 64
// dimensions as in attention_tensor_kernels.h. Named barriers: a stage is full, one for each
// computing warpgroup, because they do not wait at the same time; a stage is empty, which both say.
// Queries come with the first keys of an item, and are free when the last ones are.
#pragma once

#include "kernels/cuda/attention_tensor_kernels.h"
#include "kernels/cuda/device/warpgroups.h"

namespace unmask::cuda::UNMASK_TARGET {

template <int dim_>
struct refresh_shape {
  static constexpr int dim = dim_, keys = refresh_keys, score_keys = keys, row_tiles = 1,
                       stages = 2;
  static constexpr bool sparse = false, groups = true, rows_fastest = true;
  static constexpr int computing = 256, threads = computing + 128;
  static constexpr int pieces = dim / 8, steps = dim / 16, warp_rows = 16;
  static constexpr int item_rows = refresh_tile_rows;
  static constexpr int tile = keys * dim;
};
template <int dim>
constexpr std::size_t refresh_shared_bytes = sizeof(std::uint16_t) *
                                             (128 + refresh_shape<dim>::stages * 2 * 128) * dim;

// Registers of a thread: 3 x 168 of the launch are one warpgroup's that copies and two others'.
constexpr int copying_registers = 56, computing_registers = 224;

namespace refresh_barrier {  // + 2 x warpgroup, + stage
enum : int { full_key = 1, full_value = 5, empty_key = 9, empty_value = 11, turn = 13 };
constexpr int of_full = 256, of_empty = 384, of_turn = 256;  // threads that come there
}  // namespace refresh_barrier

template <class shape>
using refresh_weights = std::uint32_t[shape::keys / 16][4];

// ---- the warpgroup that copies ------------------------------------------------------------------

// Loads in the order of use. A load is announced when the next one has been started, so that two
// copies run at the same time.
template <class shape>
struct refresh_copier {
  const attention_params& p;
  std::uint16_t *query, *key, *value;
  int announced_late = 0;  // barriers of the load that was started last; 0: none
  int key_turn = 0, value_turn = 0, free_keys = 0;

  UNMASK_DEVICE int thread() const { return static_cast<int>(thread_index()) - shape::computing; }
  UNMASK_DEVICE void started(int barrier) {
    copy_async_commit();
    if (announced_late != 0) {
      copy_async_wait<1>();
      announce();
    }
    announced_late = barrier;
  }
  UNMASK_DEVICE void announce() {
    fence_shared_copies();
    arrive_named(announced_late, refresh_barrier::of_full);
    arrive_named(announced_late + 2, refresh_barrier::of_full);
  }
  UNMASK_DEVICE void finish() {
    copy_async_wait<0>();
    if (announced_late != 0) announce();
  }
  // Waits until the keys of both stages are free, and with them the queries.
  UNMASK_DEVICE void load_queries(const tensor_item& w) {
    for (; free_keys < shape::stages; ++free_keys) {
      sync_named(refresh_barrier::empty_key + (key_turn + free_keys) % shape::stages,
                 refresh_barrier::of_empty);
    }
    for (int c = thread(); c < shape::item_rows * shape::pieces; c += 128) {
      const int row = c / shape::pieces, piece = c % shape::pieces, at = w.first_packed + row;
      const std::int64_t from =
          (w.first_row + at / w.group) * p.q_stride +
          static_cast<std::int64_t>(w.kv_head * w.group + at % w.group) * shape::dim + piece * 8;
      const bool there = at < w.packed;
      copy_async_16(query + tensor_place<shape::dim, true>(shape::item_rows, row, piece),
                    static_cast<const std::uint16_t*>(p.q) + (there ? from : 0), there);
    }
  }
  // Copies keys or values of the tile from `base` on: two pages, with zeros after the last key.
  UNMASK_DEVICE void load_side(const cache_side& side, const tensor_item& w, int base, int last_key,
                               std::uint16_t* to) {
    constexpr int apart = 128 / shape::pieces;
    static_assert(apart % 8 == 0);
    const int row = thread() / shape::pieces, piece = thread() % shape::pieces;
    to += tensor_place<shape::dim, true>(shape::keys, row, piece);
#pragma unroll
    for (int page = 0; page < shape::keys / tensor_keys; ++page) {
      const int first = base + page * tensor_keys;
      const std::uint16_t* from =
          static_cast<const std::uint16_t*>(side.data) +
          slot_offset(side, p.place, w.sequence, first < last_key ? first : base) +
          row * side.width + w.kv_head * shape::dim + piece * 8;
#pragma unroll
      for (int i = 0; i < tensor_keys / apart; ++i) {
        copy_async_16(to + (page * tensor_keys + i * apart) * 64, from,
                      first + row + i * apart < last_key);
        from += apart * side.width;
      }
    }
  }
  UNMASK_DEVICE void load_keys(const tensor_item& w, const tensor_span& span, int tile) {
    const int stage = key_turn++ % shape::stages;
    if (free_keys > 0) {
      --free_keys;
    } else {
      sync_named(refresh_barrier::empty_key + stage, refresh_barrier::of_empty);
    }
    load_side(p.keys, w, span.first_key + tile * shape::keys, span.last_key,
              key + stage * shape::tile);
    started(refresh_barrier::full_key + stage);
  }
  UNMASK_DEVICE void load_values(const tensor_item& w, const tensor_span& span, int tile) {
    const int stage = value_turn++ % shape::stages;
    sync_named(refresh_barrier::empty_value + stage, refresh_barrier::of_empty);
    load_side(p.values, w, span.first_key + tile * shape::keys, span.last_key,
              value + stage * shape::tile);
    started(refresh_barrier::full_value + stage);
  }
};

template <class shape>
UNMASK_DEVICE int tiles_of(const tensor_span& span) {
  return (span.last_key - span.first_key + shape::keys - 1) / shape::keys;
}

template <class shape>
UNMASK_DEVICE void copy_items(const attention_params& p, std::uint16_t* query, std::uint16_t* key,
                              std::uint16_t* value, int group) {
  refresh_copier<shape> copier{p, query, key, value};
  const std::int32_t items = p.item_begin[p.sequences];
#pragma unroll 1
  for (auto item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const tensor_item w = tensor_item_of<shape::rows_fastest>(p, item, shape::item_rows, group);
    const tensor_span span = span_of<shape>(p, w);
    const int count = tiles_of<shape>(span);
    if (count == 0) continue;
    copier.load_queries(w);
    copier.load_keys(w, span, 0);
#pragma unroll 1
    for (int i = 1; i < count; ++i) {
      copier.load_keys(w, span, i);
      copier.load_values(w, span, i - 1);
    }
    copier.load_values(w, span, count - 1);
  }
  copier.finish();
}

// ---- the warpgroups that compute ----------------------------------------------------------------

// Starts score = Q K^T. The descriptors of the next 16 dimensions differ by a constant.
template <class shape>
UNMASK_DEVICE void start_scores(tensor_scores<shape>& score, wgmma_place query, wgmma_place key) {
  wgmma_begin(score);
  wgmma_64x128x16<false>(score[0], query.further(0), key.further(0));
#pragma unroll
  for (int step = 1; step < shape::steps; ++step) {
    const int half = step / 4, within = step % 4 * 2;  // in units of 16 bytes
    wgmma_64x128x16<true>(score[0], query.further(half * (shape::item_rows * 8) + within),
                          key.further(half * (shape::keys * 8) + within));
  }
  wgmma_commit();
}

// Starts o += W V.
template <class shape>
UNMASK_DEVICE void start_output(tensor_sums<shape>& sums, refresh_weights<shape>& weight,
                                wgmma_place value) {
  wgmma_begin(sums.o, weight);
#pragma unroll
  for (int step = 0; step < shape::keys / 16; ++step) {
    wgmma_values(sums.o[0], weight[step], value.further(step * (16 * 8)));
  }
  wgmma_commit();
}

// Turns scores into exp(scale (score - m)) under the new largest score of each row and adds them to
// l.
template <class shape>
UNMASK_DEVICE void weigh_scores(tensor_scores<shape>& score, tensor_sums<shape>& sums,
                                float (&grow)[2], float scale_log2) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float top = sums.m[0][h];
#pragma unroll
    for (int n = 0; n < shape::keys / 8; ++n) {
      top = fmaxf(top, fmaxf(score[0][n][2 * h], score[0][n][2 * h + 1]));
    }
    top = fmaxf(top, shuffle_xor(top, 1));
    top = fmaxf(top, shuffle_xor(top, 2));
    const float base_log2 = top == -INFINITY ? 0.0F : top * scale_log2;
    grow[h] = sums.m[0][h] == top
                  ? 1.0F
                  : exp2_fast(fused_multiply_add(sums.m[0][h], scale_log2, -base_log2));
    sums.m[0][h] = top;
    float sum = 0;
#pragma unroll
    for (int n = 0; n < shape::keys / 8; ++n) {
#pragma unroll
      for (int e = 2 * h; e < 2 * h + 2; ++e) {
        score[0][n][e] = exp2_fast(fused_multiply_add(score[0][n][e], scale_log2, -base_log2));
        sum += score[0][n][e];
      }
    }
    sums.l[0][h] = fused_multiply_add(sums.l[0][h], grow[h], sum);
  }
}

template <class shape>
UNMASK_DEVICE void scale_output(tensor_sums<shape>& sums, const float (&grow)[2]) {
#pragma unroll
  for (int d = 0; d < shape::dim / 8; ++d) {
    sums.o[0][d][0] *= grow[0];
    sums.o[0][d][1] *= grow[0];
    sums.o[0][d][2] *= grow[1];
    sums.o[0][d][3] *= grow[1];
  }
}

template <class shape>
UNMASK_DEVICE void pack_scores(refresh_weights<shape>& weight, const tensor_scores<shape>& score) {
#pragma unroll
  for (int step = 0; step < shape::keys / 16; ++step) {
    pack_weights(weight[step], score[0][2 * step], score[0][2 * step + 1]);
  }
}

template <class shape>
struct refresh_worker {
  const attention_params& p;
  wgmma_place query, key, value;  // of stage 0
  int group;                      // 0 or 1: which warpgroup this is
  int key_turn = 0, value_turn = 0;
  tensor_sums<shape> sums;
  tensor_scores<shape> score;
  refresh_weights<shape> weight;
  float grow[2];

  UNMASK_DEVICE static wgmma_place stage(wgmma_place first, int turn) {
    constexpr int units = shape::tile * 2 / 16;
    return same_in_warp(first.further(turn % shape::stages * units));
  }
  UNMASK_DEVICE void wait_full(int barrier, int turn) {
    sync_named(barrier + 2 * group + turn % shape::stages, refresh_barrier::of_full);
  }
  UNMASK_DEVICE void release(int barrier, int turn) {
    arrive_named(barrier + turn % shape::stages, refresh_barrier::of_empty);
  }
  UNMASK_DEVICE void start_tile() {
    wait_full(refresh_barrier::full_key, key_turn);
    start_scores<shape>(score, same_in_warp(query), stage(key, key_turn));
  }
  UNMASK_DEVICE void end_tile() {
    wgmma_end(score);
    release(refresh_barrier::empty_key, key_turn++);
  }
  UNMASK_DEVICE void start_values() {
    wait_full(refresh_barrier::full_value, value_turn);
    start_output<shape>(sums, weight, stage(value, value_turn));
  }
  UNMASK_DEVICE void end_values() {
    wgmma_end(sums.o);
    release(refresh_barrier::empty_value, value_turn++);
  }

  // Computes the scores of the tile from `base` on, while the values of the previous tile are
  // added.
  template <bool masked>
  UNMASK_DEVICE void add_tile(const int (&seen)[1][2], int base, int last_key) {
    sync_named(refresh_barrier::turn + group, refresh_barrier::of_turn);
    start_tile();
    start_values();
    arrive_named(refresh_barrier::turn + 1 - group, refresh_barrier::of_turn);
    wgmma_wait<1>();
    end_tile();
    if constexpr (masked) mask_slots<shape>(score, seen, base, last_key);
    weigh_scores<shape>(score, sums, grow, p.scale_log2);
    wgmma_wait<0>();
    end_values();
    // After the first tile, few tiles hold the largest score of a row. A factor of 1 changes
    // nothing.
    if (warp_vote(grow[0] != 1.0F || grow[1] != 1.0F) != 0) scale_output<shape>(sums, grow);
    pack_scores<shape>(weight, score);
  }

  UNMASK_DEVICE void add_item(const tensor_item& w, const tensor_span& span) {
    const int count = tiles_of<shape>(span);
    int seen[1][2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = packed_row<shape>(w.first_packed, 0, h);
      const int row = w.first_row + (at < w.packed ? at : w.packed - 1) / w.group;
      seen[0][h] = p.mask == mask_kind::full ? 0x7FFFFFFF : slots_seen(p, p.position[row]);
    }
    start_tile();
    wgmma_wait<0>();
    end_tile();
    mask_slots<shape>(score, seen, span.first_key, span.last_key);
    weigh_scores<shape>(score, sums, grow, p.scale_log2);
    pack_scores<shape>(weight, score);
    const int clear = (span.unmasked - span.first_key) / shape::keys;  // tiles that all rows see
    int i = 1;
#pragma unroll 1
    for (; i < clear; ++i) add_tile<false>(seen, 0, 0);
#pragma unroll 1
    for (; i < count; ++i) {
      add_tile<true>(seen, span.first_key + i * shape::keys, span.last_key);
    }
    start_values();
    wgmma_wait<0>();
    end_values();
  }
};

template <class shape>
UNMASK_DEVICE void compute_items(const attention_params& p, const std::uint16_t* query,
                                 const std::uint16_t* key, const std::uint16_t* value, int group) {
  const int heads_each = group, mine = shuffle(warp_index() / 4, 0);
  refresh_worker<shape> worker{p, place_of(query + mine * 64 * 64, 16), place_of(key, 16),
                               place_of(value, shape::keys * 64 * 2), mine};
  // At first all stages are empty, and it is the turn of the first warpgroup.
#pragma unroll
  for (int stage = 0; stage < shape::stages; ++stage) {
    arrive_named(refresh_barrier::empty_key + stage, refresh_barrier::of_empty);
    arrive_named(refresh_barrier::empty_value + stage, refresh_barrier::of_empty);
  }
  if (mine == 1) arrive_named(refresh_barrier::turn, refresh_barrier::of_turn);
  const std::int32_t items = p.item_begin[p.sequences];
#pragma unroll 1
  for (auto item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const tensor_item w =
        tensor_item_of<shape::rows_fastest>(p, item, shape::item_rows, heads_each);
    const tensor_span span = span_of<shape>(p, w);
    clear_sums<shape>(worker.sums);
    if (tiles_of<shape>(span) > 0) worker.add_item(w, span);
    store_sums<shape>(p, item, heads_each, worker.sums);
  }
}

template <int dim>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(refresh_shape<dim>::threads, 1)
    attention_refresh_kernel(attention_params p) {
  using shape = refresh_shape<dim>;
  shared_allocator shared;
  std::uint16_t* query = shared.take<std::uint16_t>(shape::item_rows * dim).data();
  std::uint16_t* key = shared.take<std::uint16_t>(shape::stages * shape::tile).data();
  std::uint16_t* value = shared.take<std::uint16_t>(shape::stages * shape::tile).data();
  const int group = p.heads / p.kv_heads;
  if (shuffle(warp_index() / 4, 0) == 2) {
    give_registers<copying_registers>();
    copy_items<shape>(p, query, key, value, group);
  } else {
    take_registers<computing_registers>();
    compute_items<shape>(p, query, key, value, group);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
