// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/groups.h"
#include "kernels/token_state.h"
#include "methods/optimus/kernels/chunk.h"

namespace unmask::cuda::UNMASK_TARGET {

struct select_chunk_params {
  std::int32_t sequences;
  const std::uint8_t* state;
  std::int64_t stride;
  chunk_params chunk;
  std::int32_t* count;  // [S] scratch
  std::int32_t* begin;
  std::int32_t* sequence;
  std::int32_t* position;
  std::int32_t* slot;
  std::uint8_t* settles;
};

// Is K/V of the decided position p final, given the states of its block [begin, end)?
UNMASK_DEVICE bool is_settled(const std::uint8_t* state, int p, int begin, int end,
                              settle_rule rule) {
  switch (rule) {
    case settle_rule::any_decoded:
      return true;
    case settle_rule::right_neighbour:
      return p + 1 == end || state[p + 1] != state_masked;
    case settle_rule::contiguous_prefix:
      end = p;
      break;
    case settle_rule::whole_block:
      break;
  }
  for (int i = begin; i < end; ++i) {
    if (state[i] == state_masked) return false;
  }
  return true;
}

// How many positions are in play: the decided, the masked, the rows that enter.
struct chunk_counts {
  int decided, masked, chosen;
};

template <class G>
UNMASK_DEVICE chunk_counts count_chunk(const G& group, const select_chunk_params& p, int s) {
  const int first = p.chunk.first[s], n = p.chunk.last[s] - first;
  const std::uint8_t* state = p.state + s * p.stride + first;
  const int size = p.chunk.size[s] > 0 ? p.chunk.size[s] : 0;
  const int decided = group.count(n, [&](int i) { return state[i] == state_decoded; });
  const int masked = group.count(n, [&](int i) { return state[i] == state_masked; });
  return {decided, masked, decided + masked < size ? decided + masked : size};
}

UNMASK_KERNEL void count_chunk_kernel(select_chunk_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int s = static_cast<int>(block_index());
  const chunk_counts counts = count_chunk(group, p, s);
  if (group.rank() == 0) p.count[s] = counts.chosen;
}

UNMASK_KERNEL void write_chunk_kernel(select_chunk_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const int s = static_cast<int>(block_index());
  const int first = p.chunk.first[s], last = p.chunk.last[s], block = p.chunk.block;
  const std::uint8_t* state = p.state + s * p.stride;
  const chunk_counts counts = count_chunk(group, p, s);
  const int start = entries_before(group, p.count, s);
  if (group.rank() == 0) {
    p.begin[s] = start;
    if (s + 1 == p.sequences) p.begin[s + 1] = start + counts.chosen;
  }
  // Decided ones first: as many of them as fit, then the leftmost masks. Else the leftmost open.
  const int from_decided = counts.decided < counts.chosen ? counts.decided : counts.chosen;
  const int from_masked = counts.chosen - from_decided;
  int decided_seen = 0, masked_seen = 0, at = start;
  for (int base = first; base < last; base += group.size()) {
    const int position = base + group.rank();
    const bool inside = position < last;
    const bool decided = inside && state[position] == state_decoded;
    const bool masked = inside && state[position] == state_masked;
    int decided_here = 0, masked_here = 0, chosen_here = 0;
    const int decided_rank = decided_seen + group.before(decided, decided_here);
    const int masked_rank = masked_seen + group.before(masked, masked_here);
    bool chosen = false;
    if (p.chunk.pending_first) {
      chosen = (decided && decided_rank < from_decided) || (masked && masked_rank < from_masked);
    } else {
      chosen = (decided || masked) && decided_rank + masked_rank < counts.chosen;
    }
    const int place = at + group.before(chosen, chosen_here);
    if (chosen) {
      const int begin = position / block * block;
      p.sequence[place] = s;
      p.position[place] = position;
      p.settles[place] =
          decided && is_settled(state, position, begin, begin + block, p.chunk.rule) ? 1 : 0;
    }
    decided_seen += decided_here;
    masked_seen += masked_here;
    at += chosen_here;
  }
  group.sync();
  // Inside each block: the cached first, then the rows that settle now, then the others.
  const int end = start + counts.chosen;
  for (int r = start + group.rank(); r < end; r += group.size()) {
    const int begin = p.position[r] / block * block;
    if (!p.chunk.compact_slots) {
      p.slot[r] = p.position[r];
      continue;
    }
    int rank = 0;
    for (int i = begin; i < begin + block; ++i) rank += state[i] == state_cached ? 1 : 0;
    for (int o = r - 1; o >= start && p.position[o] >= begin; --o) {
      rank += p.settles[o] >= p.settles[r] ? 1 : 0;
    }
    for (int o = r + 1; o < end && p.position[o] < begin + block; ++o) {
      rank += p.settles[o] > p.settles[r] ? 1 : 0;
    }
    p.slot[r] = begin + rank;
  }
}

namespace {

grid_shape block_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), group_threads, group_bytes};
}

std::int32_t select_chunk(const device_ops& device, const op::select_chunk& args) {
  if (args.sequences == 0) {
    device.work().fill_zero(args.begin, sizeof(std::int32_t));
    return 0;
  }
  const select_chunk_params p{
      args.sequences,
      args.state.as<std::uint8_t>(),
      args.state.row_stride,
      args.params,
      device.work().scratch<std::int32_t>(scratch_slot::selection_a, args.sequences),
      args.begin,
      args.sequence,
      args.position,
      args.slot,
      args.settles};
  device.work().launch("select_chunk: count", block_each(args.sequences), count_chunk_kernel, p);
  device.work().launch("select_chunk: write", block_each(args.sequences), write_chunk_kernel, p);
  return device.work().read(args.begin + args.sequences);
}

}  // namespace

const register_operations<select_chunk> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
