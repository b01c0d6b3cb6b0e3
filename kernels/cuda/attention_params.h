// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the attention kernels share: their arguments, which keys a row sees, how work is cut.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int plan_threads = 256;
constexpr int attention_chunk = 512;  // keys; a multiple of every kernel's key tile

struct attention_params {
  const void* q;  // [R, heads, dim]
  dtype q_type;   // as given: the tensor kernels take bfloat16, the exact ones float32
  std::int64_t q_stride;
  void* out;  // [R, heads, dim]
  dtype out_type;
  std::int64_t out_stride;
  const std::int32_t* row_begin;  // [S+1]
  const std::int32_t* position;   // [R]
  int sequences, heads, kv_heads, dim;
  float scale;
  float scale_log2;  // of the tensor kernels: scale, for powers of two
  cache_side keys, values;
  cache_place place;
  // Which keys: as key_set.
  const std::int32_t* kv_length;
  const std::int32_t* key_begin;
  const std::int32_t* key_slot;
  mask_kind mask;
  int mask_block;
  block_mask tiles;
  // Work.
  // By attention_plan_kernel: lengths and lists may lie in host memory, which is read once then and
  // not by every block.
  std::int32_t* item_begin;  // [S+1]
  std::int32_t* keys_of;     // [S] keys of each sequence
  std::int32_t* keys_from;   // [S] where they begin in key_slot
  int tile_rows;             // packed rows per item
  // Of the tensor kernels, by tensor_plan_kernel:
  std::int32_t* splits_of;   // [S] items that share the keys of one tile of rows
  std::int32_t* split_keys;  // [S] keys of each but the last, a multiple of 64
  std::int32_t* part_begin;  // [S+1] items of split sequences
  int most_parts;            // of those that partial has room for
  int places;                // items that run at once
  std::int64_t even_share;   // items that the work is at most cut for
  int max_splits;            // 1: all chunks of a row in one block
  float* partial;            // [R heads, max_splits, dim + 2]: o, m, l of every chunk
  float* softmax;            // [R heads, 2]: largest score and sum, or null
  float* key_mass;           // [total keys] or null
};

// As the caller gave them: for the plan kernel.
UNMASK_DEVICE int given_key_count(const attention_params& p, int s) {
  return p.key_begin != nullptr ? p.key_begin[s + 1] - p.key_begin[s] : p.kv_length[s];
}
UNMASK_DEVICE int split_count(const attention_params& p, int keys) {
  if (p.max_splits == 1) return 1;
  const int chunks = (keys + attention_chunk - 1) / attention_chunk;
  return chunks > 0 && chunks <= p.max_splits ? chunks : 1;  // no room: one block does them all
}
UNMASK_DEVICE std::int32_t slot_of_key(const attention_params& p, int s, int j) {
  return p.key_begin != nullptr ? p.key_slot[p.keys_from[s] + j] : j;
}
// Whether head h of a row at `position` sees `slot`.
UNMASK_DEVICE bool admits(const attention_params& p, int s, int h, std::int32_t position,
                          std::int32_t slot) {
  if (p.mask == mask_kind::causal && slot > position) return false;
  if (p.mask == mask_kind::block_causal && slot / p.mask_block > position / p.mask_block) {
    return false;
  }
  const block_mask& m = p.tiles;
  if (m.keep == nullptr || m.applies[s] == 0) return true;
  const std::int64_t line =
      (static_cast<std::int64_t>(s) * p.heads + h) * m.blocks + position / m.size;
  return m.keep[line * m.blocks + slot / m.size] != 0;
}

// Sequence of an item: the last s with item_begin[s] <= item.
UNMASK_DEVICE int sequence_of(const std::int32_t* begin, int sequences, std::int32_t item) {
  int low = 0, high = sequences - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (begin[middle] <= item) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

UNMASK_DEVICE std::int64_t partial_place(const attention_params& p, std::int64_t row, int h,
                                         int split) {
  return ((row * p.heads + h) * p.max_splits + split) * (p.dim + 2);
}

// What a work list depends on besides the contents of the lists (queue::has_plan).
inline queue::plan_key attention_plan_key(const attention_params& p) {
  const auto word = [](const void* at) { return reinterpret_cast<std::uint64_t>(at); };
  return {word(p.row_begin),
          word(p.kv_length),
          word(p.key_begin),
          word(p.item_begin),
          static_cast<std::uint64_t>(p.sequences),
          static_cast<std::uint64_t>(p.heads),
          static_cast<std::uint64_t>(p.kv_heads),
          static_cast<std::uint64_t>(p.tile_rows),
          static_cast<std::uint64_t>(p.max_splits),
          static_cast<std::uint64_t>(p.most_parts)};
}

class device_backend;

// ops/attention_tensor.cu: attention over bfloat16 keys and values on tensor cores. False where there
// is none: other head dimensions than 64 and 128, block masks of other sizes than multiples of 8.
bool can_use_tensor_cores(const attention_params& p);
// most_keys: of a row, a bound that the host knows.
void launch_tensor_attention(const device_backend& device, attention_params p,
                             std::int64_t packed_rows, std::int64_t most_keys);

}  // namespace unmask::cuda::UNMASK_TARGET
