// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// SparseD's attention patterns: how much softmax mass each tile of query block x key block holds,
// and which tiles are kept.
#pragma once

#include <algorithm>

#include "kernels/operation.h"

namespace unmask {

namespace op {

// Softmax mass of tiles (SparseD's pattern scores): out[s, h, i, j] = size^-2 sum over the rows r
// of query block i and the slots k of key block j of softmax_k(q[r, h] . key[k, h / group] *
// scale), the softmax over slots [first_slot[s], kv_length[s]); first_slot is a multiple of size.
// Written: i, j of blocks that have a position below kv_length, j from first_slot on. Sequences
// with kv_length 0 are left alone. out [S, heads, blocks, blocks].
struct block_mass {
  row_set rows;
  tensor_view q;
  paged_kv cache;
  const std::int32_t* kv_length = nullptr;
  const std::int32_t* first_slot = nullptr;
  std::int32_t size = 0;
  float scale = 0;
  tensor_view out;
};

// FLOPs of sequence s by one head: two for each element of q . key.
inline double flops_of_head(const block_mass& o, std::int32_t s) {
  const double rows = o.rows.row_begin[s + 1] - o.rows.row_begin[s];
  return 2.0 * rows * std::max(o.kv_length[s] - o.first_slot[s], 0) *
         static_cast<double>(o.q.shape[2]);
}

// Per sequence s, head and query block i < used[s]: the count[s] largest mass[s, h, i, j] with j
// in [first[s], used[s]) are chosen (all when fewer); keep[s, h, i, j] for j in [first[s],
// limit[s]) = whether j was. mass f32, keep u8, both [S, heads, blocks, blocks].
struct keep_top_blocks {
  tensor_view mass;
  const std::int32_t* used = nullptr;
  const std::int32_t* first = nullptr;
  const std::int32_t* limit = nullptr;
  const std::int32_t* count = nullptr;
  tensor_view keep;
};

// Keys that a row of query block i sees under the mask, mean over the heads: out[s, i], for the
// sequences it applies to. keep u8 [S, heads, blocks, blocks], out f32 [S, blocks].
struct block_mask_keys {
  tensor_view keep;
  const std::uint8_t* applies = nullptr;
  std::int32_t size = 0;
  const std::int32_t* kv_length = nullptr;
  tensor_view out;

  head_sum over_heads() const { return {out.as<float>(), out.elements(), keep.shape[1]}; }
};

}  // namespace op
}  // namespace unmask
