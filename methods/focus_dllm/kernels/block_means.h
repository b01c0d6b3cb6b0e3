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

}  // namespace op
}  // namespace unmask
