// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention on tensor cores in one launch, for keys that are cut: blocks draw tickets, one after the
// other, of which the plan has left a record each. First come the items, then the shares of merging.
// A block that merges waits until all parts of its tile are there, and merges some of its rows.
//
// Who waits has drawn its ticket after every item. So every item that is not there yet is at work in
// a block that runs and waits for nobody, whichever blocks run and however many.
#pragma once

#include "kernels/cuda/attention_tensor_kernels.h"
#include "kernels/cuda/device/announce.h"

namespace unmask::cuda::UNMASK_TARGET {

// Ticket numbers of this turn and of the next one.
constexpr std::size_t joined_ticket_bytes = 2 * sizeof(std::int32_t) + 8;

UNMASK_DEVICE tensor_item item_of(const attention_ticket& t, int group) {
  tensor_item w;
  w.group = group;
  w.sequence = t.sequence;
  w.keys = t.last_key;
  w.splits = t.splits;
  w.split = t.share;
  w.kv_head = t.kv_head;
  w.first_packed = t.first_packed;
  w.first_row = t.first_row;
  w.packed = t.packed;
  return w;
}

// Merges a share of the rows of a tile whose parts are there. All warps of the block.
template <class shape>
UNMASK_DEVICE void merge_share(const attention_params& p, const attention_ticket& t, int group) {
  constexpr int at_once = 8, stride = shape::item_rows * (shape::dim + 2);
  constexpr int each = shape::item_rows / merging_shares;
  const int first = t.share * each;
  const float* parts = p.partial + static_cast<std::int64_t>(t.part) * stride;
  for (int r = first + warp_index(); r < first + each; r += shape::threads / warp_size) {
    const int at = t.first_packed + r;
    if (at >= t.packed) return;
    merge_parts<shape::dim, at_once>(
        p, parts + r * (shape::dim + 2), stride, t.splits,
        (t.first_row + at / group) * p.heads + t.kv_head * group + at % group);
  }
}

// Only Hopper's machine code has it (ops/attention_joined.cu).
template <int dim, int warps, int row_tiles, bool groups>
UNMASK_KERNEL void UNMASK_THREADS_BLOCKS(warps* warp_size, row_tiles == 1 ? 2 : 1)
    attention_joined_kernel([[maybe_unused]] attention_params p) {
#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using shape = tensor_shape<dim, warps, tensor_stages, row_tiles, false, groups>;
  shared_allocator shared;
  const tensor_room room = room_of<shape>(shared);
  const auto numbers = shared.take<std::int32_t>(2);
  const int group = p.heads / p.kv_heads;
  const bool first_thread = thread_index() == 0;
  const std::int32_t all = p.drawn[1];
  if (first_thread) numbers[0] = atomic_add(p.drawn, 1);
  sync_block();
  for (int turn = 0;; turn ^= 1) {
    const std::int32_t number = numbers[turn];
    if (number >= all) {
      // The last block to come finds all tickets drawn, once by each block.
      const auto blocks = static_cast<std::int32_t>(grid_size());
      if (first_thread && number == all + blocks - 1) atomic_add(p.drawn, -(all + blocks));
      return;
    }
    const auto draw = [&] {
      if (first_thread) numbers[turn ^ 1] = atomic_add(p.drawn, 1);
    };
    if (p.tickets[number].merging == 0) {
      tensor_sums<shape> sums;
      {
        const attention_ticket t = p.tickets[number];
        const tensor_item w = item_of(t, group);
        const tensor_span span = seen_of<shape>(p, w, t.first_key, t.last_key);
        compute_item<shape>(p, w, span, room, sums, draw);
      }
      // It is read again, because over the loop it would take registers that the sums need.
      const attention_ticket t = p.tickets[number];
      store_rows<shape>(
          p, item_of(t, group), [&] { return t.part; }, sums);
      sync_block();
      if (first_thread && t.part >= 0) announce(p.done + (t.part - t.share));
    } else {
      const attention_ticket t = p.tickets[number];
      std::int32_t* done = p.done + t.part;
      if (first_thread) await_count(done, t.splits);
      draw();
      sync_block();
      merge_share<shape>(p, t, group);
      sync_block();
      // Nobody asks any more once every share is merged: it is ready for the next launch.
      const std::int32_t counted = t.splits + merging_shares;
      if (first_thread && announce(done) == counted - 1) atomic_add(done, -counted);
    }
  }
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
