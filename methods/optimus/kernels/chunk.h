// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which rows of a block enter a forward of Optimus, and whose K/V is final after it. Token states:
// masked 0, decided 1, cached 2 (token_state.h).
#pragma once

#include "kernels/operation.h"

namespace unmask {

// When a decided token's K/V counts as final, judged on the states at the input of a forward.
enum class settle_rule : std::uint8_t {
  any_decoded,        // it was an input as a decided token
  contiguous_prefix,  // and everything before it in the block is decided
  right_neighbour,    // and the position after it in the block is decided (none after the last)
  whole_block         // and everything in the block is decided
};

// Chunks of a block: which undetermined positions of [first, last) enter this forward.
struct chunk_params {
  const std::int32_t* first = nullptr;  // [S]
  const std::int32_t* last = nullptr;   // [S] end of the positions in play; first: no rows
  const std::int32_t* size = nullptr;   // [S] most rows
  std::int32_t block = 1;               // tokens per block, counted from position 0
  bool pending_first = true;            // decided ones before masked ones; false: position order
  settle_rule rule = settle_rule::any_decoded;
  bool compact_slots = true;  // K/V of a block in the order of settling; false: slot = position
};

namespace op {

// Rows of one forward out of the positions not cached, at most size[s] (chunk_params): begin
// [S+1], sequence, position ascending; slot [R] where the row's K/V goes; settles [R] 1 where it
// is final after this forward. Returns the total.
struct select_chunk {
  using result = std::int32_t;
  std::int32_t sequences = 0;
  tensor_view state;
  chunk_params params;
  std::int32_t* begin = nullptr;
  std::int32_t* sequence = nullptr;
  std::int32_t* position = nullptr;
  std::int32_t* slot = nullptr;
  std::uint8_t* settles = nullptr;
};

}  // namespace op
}  // namespace unmask
