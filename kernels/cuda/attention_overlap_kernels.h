// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention of many rows (prefill, refresh, whole sequences) by warpgroups: 192 packed rows of 128
// dimensions, whose products overlap with exponentials inside each warpgroup, as in FlashAttention-3.
// attention_tensor_kernel leaves that to a second block, whose registers a warp needs here: beside the
// sums it holds the weights of one tile while tensor cores multiply them, and the scores of the next,
// which it turns into weights meanwhile. Every row's sums are those of attention_tensor_kernel, bit by
// bit.
//
// Three warpgroups of 64 rows, one block on a multiprocessor, up to 168 registers a thread. Shared
// memory is that of attention_tensor_kernel; keys are copied one tile ahead of values.
#pragma once

#include "kernels/cuda/attention_tensor_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int overlap_rows = 192, overlap_stages = 2;
using overlap_shape = tensor_shape<128, overlap_rows / 16, overlap_stages, 1, false, true>;

// Starts the copies of the keys or the values of a tile, which lie in one page, by the 128 threads of one
// warpgroup; zeros behind the last key, as copy_page.
UNMASK_DEVICE void copy_side(const attention_params& p, const cache_side& side,
                             const tensor_item& w, int base, int last_key, std::uint16_t* to) {
  constexpr int pieces = overlap_shape::pieces, apart = 128 / pieces;
  static_assert(apart == 8);
  const int t = static_cast<int>(thread_index()) % 128, row = t / pieces;
  const std::uint16_t* from = static_cast<const std::uint16_t*>(side.data) +
                              slot_offset(side, p.place, w.sequence, base) + row * side.width +
                              w.kv_head * overlap_shape::dim + t % pieces * 8;
  to += tensor_place<overlap_shape::dim, true>(tensor_keys, row, t % pieces);
#pragma unroll
  for (int i = 0; i < tensor_keys / apart; ++i) {
    copy_async_16(to + i * apart * 64, from, base + row + i * apart < last_key);
    from += apart * side.width;
  }
}

// The tiles of an item's keys: while tile i is multiplied by the queries and the weights of tile i - 1 by
// its values, the keys of tile i + 1 and the values of tile i are under way.
struct overlap_tiles {
  const attention_params& p;
  const tensor_item& w;
  const tensor_span& span;
  std::uint16_t *key, *value;
  int copied_by;  // whose warpgroup this is: 0 copies keys, 1 values

  UNMASK_DEVICE int count() const {
    return (span.last_key - span.first_key + tensor_keys - 1) / tensor_keys;
  }
  UNMASK_DEVICE int base(int i) const { return span.first_key + i * tensor_keys; }
  UNMASK_DEVICE std::uint16_t* keys(int i) const {
    return key + i % overlap_stages * overlap_shape::tile;
  }
  UNMASK_DEVICE std::uint16_t* values(int i) const {
    return value + i % overlap_stages * overlap_shape::tile;
  }
  UNMASK_DEVICE void copy_keys(int i) const {
    if (copied_by == 0 && i < count()) copy_side(p, p.keys, w, base(i), span.last_key, keys(i));
  }
  UNMASK_DEVICE void copy_values(int i) const {
    if (copied_by == 1 && i < count()) copy_side(p, p.values, w, base(i), span.last_key, values(i));
  }
  // Waits for the keys of tile i and the values of tile i - 1.
  UNMASK_DEVICE void wait_for(int i) const {
    copy_async_wait<0>();
    fence_shared_copies();
    sync_block();
    copy_keys(i + 1);
    copy_values(i);
    copy_async_commit();
  }
};

UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(overlap_shape::threads, 1)
    attention_overlap_kernel(attention_params p) {
  using shape = overlap_shape;
  shared_allocator shared;
  std::uint16_t* query = shared.take<std::uint16_t>(overlap_rows * shape::dim).data();
  std::uint16_t* key = shared.take<std::uint16_t>(overlap_stages * shape::tile).data();
  std::uint16_t* value = shared.take<std::uint16_t>(overlap_stages * shape::tile).data();
  const auto slots = shared.take<std::int32_t>(overlap_rows);  // that each row sees
  const int group = p.heads / p.kv_heads;
  const std::int32_t items = p.item_begin[p.sequences];
  for (std::int32_t item = static_cast<std::int32_t>(block_index()); item < items;
       item += static_cast<std::int32_t>(grid_size())) {
    const tensor_item w = tensor_item_of(p, item, overlap_rows, group);
    const tensor_span span = span_of<shape>(p, w);
    const overlap_tiles tiles{p, w, span, key, value, shuffle(warp_index() / 4, 0)};
    const int count = tiles.count();
    sync_block();  // the last item has been read
    note_slots<shape>(p, w, slots);
    tensor_sums<shape> sums;
    clear_sums<shape>(sums);
    if (count > 0) {
      copy_queries<shape>(p, w, query);
      tiles.copy_keys(0);
      copy_async_commit();
      tensor_scores<shape> score;
      tensor_growth<shape> grow;
      tensor_weights<shape> weight, next;
      bool higher = false;
      // Scores of tile i become the weights `next`.
      const auto weigh_tile = [&](int i) {
        if (tiles.base(i) + tensor_keys > span.unmasked) {
          mask_tile<shape>(score, p, w, tiles.base(i), span.last_key, slots);
        }
        higher = weigh_scores<shape>(score, sums, grow, p.scale_log2);
        pack_all_weights<shape>(next, score);
      };
      // Ends the product that adds to o, which may still be under way, and takes the weights of the next
      // one. The wait stands at the top of a loop: ptxas moves it up to where its block of instructions
      // begins, which behind the scores' wait would be before they are weighed.
      const auto take_weights = [&] {
        wgmma_wait<0>();
        wgmma_end(sums.o);
        if (warp_vote(higher) != 0) scale_output<shape>(sums, grow);
#pragma unroll
        for (int step = 0; step < shape::score_keys / 16; ++step) {
#pragma unroll
          for (int j = 0; j < 4; ++j) copy_register(weight[step][j], next[step][j]);
        }
      };
      tiles.wait_for(0);
      clear_scores<shape>(score);
      multiply_keys_by_groups<shape>(score, query, tiles.keys(0));
      wgmma_wait<0>();
      wgmma_end(score);
      weigh_tile(0);
#pragma unroll 1
      for (int i = 1; i < count; ++i) {
        take_weights();
        tiles.wait_for(i);
        clear_scores<shape>(score);
        multiply_keys_by_groups<shape>(score, query, tiles.keys(i));
        add_values_by_groups<shape>(sums, weight, tiles.values(i - 1));
        wgmma_wait<1>();
        wgmma_end(score);
        weigh_tile(i);
      }
      take_weights();
      tiles.wait_for(count);
      add_values_by_groups<shape>(sums, weight, tiles.values(count - 1));
      wgmma_wait<0>();
      wgmma_end(sums.o);
    }
    store_sums<shape>(p, item, group, sums);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
