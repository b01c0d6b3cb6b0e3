// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The mean key of each block, by which Focus-dLLM ranks the blocks of a prompt (eq. 7).
#pragma once

#include "kernels/operation.h"

namespace unmask {

namespace op {

// Mean key of each block of `block` consecutive slots of [0, kv_length[s]): out [blocks,
// kv_heads, dim]; block_begin [S+1] counts blocks (last block: mean of what is there). With
// first_block [S] the blocks start at that one instead of 0, to refresh a few of many.
struct block_mean_keys {
  std::int32_t sequences = 0;
  paged_kv cache;
  const std::int32_t* kv_length = nullptr;
  std::int32_t block = 0;
  const std::int32_t* block_begin = nullptr;
  tensor_view out;
  const std::int32_t* first_block = nullptr;
};

// flags[s, p] for p in [0, length[s]): 1 from position seen_from[s] on, in the listed blocks of
// `block` positions (those before seen_from[s]) and at the listed sinks, else 0. Blocks of sequence
// s: top[top_begin[s] .. top_begin[s+1]); sinks: sink[sink_begin[2 s] .. sink_begin[2 s + 1]), as
// top_indices lists them when every second segment is left out; null: none.
struct mark_context {
  std::int32_t sequences = 0;
  const std::int32_t* length = nullptr;
  const std::int32_t* seen_from = nullptr;
  std::int32_t block = 0;
  const std::int32_t* top_begin = nullptr;
  const std::int32_t* top = nullptr;
  const std::int32_t* sink_begin = nullptr;
  const std::int32_t* sink = nullptr;
  tensor_view flags;
};

}  // namespace op
}  // namespace unmask
