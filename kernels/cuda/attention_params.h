// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The arguments of all attention kernels, which keys a row sees, and how work is divided.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int plan_threads = 256;
constexpr int attention_chunk = 512;  // keys; a multiple of every kernel's key tile

// The rows of a tile are merged in so many shares: of 128 rows, one for each of eight warps.
constexpr int merging_shares = 16;

// What a block that has drawn a ticket does (attention_joined_kernels.h), so that it looks nothing up:
// it computes an item of the work list, or it merges a share of the rows of a tile whose keys were cut.
struct alignas(16) attention_ticket {
  std::int32_t sequence;
  std::int32_t first_row, packed, first_packed;  // as in tensor_item
  std::int32_t first_key, last_key;
  std::int32_t
      part;  // of all parts of cut keys; -1: the keys are not cut; of a share the tile's first
  std::uint16_t kv_head;  // as in tensor_item
  std::int16_t splits;    // parts of the tile
  std::int16_t share;     // which of them it is, or which of merging_shares
  std::int16_t merging;   // 0: computes; 1: merges
};

struct attention_params {
  const void* q;  // [R, heads, dim]
  dtype q_type;   // the tensor kernels take bfloat16, the exact ones float32
  std::int64_t q_stride;
  void* out;  // [R, heads, dim]
  dtype out_type;
  std::int64_t out_stride;
  const std::int32_t* row_begin;  // [S+1]
  const std::int32_t* position;   // [R]
  int sequences, heads, kv_heads, dim;
  float scale;
  float scale_log2;  // scale / ln 2, which the tensor kernels use with powers of two
  cache_side keys, values;
  cache_place place;
  // The keys that a row sees, as in key_set.
  const std::int32_t* kv_length;
  const std::int32_t* key_begin;
  const std::int32_t* key_slot;
  mask_kind mask;
  int mask_block;
  block_mask tiles;
  // attention_plan_kernel fills these three. Lengths and lists may be in host memory, so the kernel
  // reads them once instead of every block.
  std::int32_t* item_begin;  // [S+1]
  std::int32_t* keys_of;     // [S] number of keys of each sequence
  std::int32_t* keys_from;   // [S] index of its first key in key_slot
  int tile_rows;             // packed rows per item
  // tensor_plan_kernel fills these for the tensor kernels.
  std::int32_t* splits_of;   // [S] items that share the keys of one tile of rows
  std::int32_t* split_keys;  // [S] keys of each item except the last, a multiple of 64
  std::int32_t* part_begin;  // [S+1] items of split sequences
  int most_parts;            // the most items that `partial` has room for
  int places;                // items that run at once
  std::int64_t even_share;   // the most items that the work is divided into
  bool rows_fastest;         // order of items: attention_tensor_plan.h, place_among
  int max_splits;            // 1: one block computes all chunks of a row
  float* partial;            // [R heads, max_splits, dim + 2]: output, maximum, sum of every chunk
  float* softmax;            // [R heads, 2]: largest score and sum, or null
  float* key_mass;           // [total keys] or null
  int least_piece;           // tiles of keys of a piece of cut keys, at least
  // attention_joined_kernels.h; null: another kernel merges.
  attention_ticket* tickets;  // every item, then every share of merging
  std::int32_t* drawn;        // [2]: tickets that were drawn, and how many there are
  std::int32_t* tile_begin;   // [S+1] tiles whose keys are cut
  std::int32_t* done;  // [most_parts], of a tile at its first part: its parts that are there, and
                       // its shares that are merged
};

// Returns the number of keys that the caller gave for sequence s. Only the plan kernel uses it.
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
// Returns true if head h of a row at `position` sees `slot`.
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

// Returns the sequence of an item: the last s with item_begin[s] <= item.
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

// Returns everything that a work list depends on, except the contents of its lists
// (queue::has_plan).
inline queue::plan_key attention_plan_key(const attention_params& p) {
  const auto word = [](const void* at) { return reinterpret_cast<std::uint64_t>(at); };
  return {word(p.row_begin),
          word(p.kv_length),
          word(p.key_begin),
          word(p.item_begin),
          static_cast<std::uint64_t>(p.sequences),
          static_cast<std::uint64_t>(p.heads),
          static_cast<std::uint64_t>(p.kv_heads),
          static_cast<std::uint64_t>(p.tile_rows) << 32 | static_cast<std::uint64_t>(p.places),
          static_cast<std::uint64_t>(p.max_splits) << 1 | (p.tickets != nullptr ? 1U : 0U),
          static_cast<std::uint64_t>(p.most_parts)};
}

class device_backend;

// Returns true if ops/attention_tensor.cu can compute this attention on tensor cores. It needs
// bfloat16 keys, head dimension 64 or 128, and block masks whose size is a multiple of 8.
bool can_use_tensor_cores(const attention_params& p);
// Launches it. `most_keys` is a bound on the keys of one row that the host knows.
void launch_tensor_attention(const device_backend& device, attention_params p,
                             std::int64_t packed_rows, std::int64_t most_keys);
// Returns true if ops/attention_refresh.cu computes this attention, which launch_tensor_attention
// asks: a newer kernel, of sequences with 1,024 packed rows or more in the mean, without lists and
// block masks.
bool takes_refresh_attention(const device_backend& device, const attention_params& p,
                             std::int64_t packed_rows);
void launch_refresh_attention(const device_backend& device, const attention_params& p,
                              unsigned blocks);
// Returns true if ops/attention_cluster.cu computes this attention, which launch_tensor_attention asks: a
// newer kernel, of few sequences with many keys, without block masks and masses of keys. Queries are
// bfloat16.
bool takes_cluster_attention(const device_backend& device, const attention_params& p,
                             std::int64_t packed_rows, std::int64_t most_keys);
void launch_cluster_attention(const device_backend& device, attention_params p,
                              std::int64_t packed_rows);
// Returns true if ops/attention_joined.cu computes this attention, which launch_tensor_attention asks:
// a newer kernel that merges the parts of cut keys itself.
bool takes_joined_attention(const device_backend& device, const attention_params& p);
void launch_joined_attention(const device_backend& device, const attention_params& p,
                             unsigned blocks);

}  // namespace unmask::cuda::UNMASK_TARGET
