// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The chunk of each request for one step (Optimus section 4.2 and 4.3): which positions of its
// block are computed. Knows token states only, no model. States: masked (to be decided), decided
// but not yet final in the cache (pending), cached.
#pragma once

#include <vector>

#include "kernels/backend.h"
#include "kernels/shared_vector.h"

namespace unmask {

enum class chunk_policy : std::uint8_t {
  prefix_caching,  // everything of the block that is not cached
  naive,           // fixed sub-blocks of the chunk size, one after the other
  streaming        // the first not cached, refilled as they settle
};
enum class cache_rule : std::uint8_t {
  none,               // nothing settles before the block is complete: plain block diffusion
  any_decoded,        // a token settles by one forward with its own id as input
  contiguous_prefix,  // and only when everything before it in the block is decided
  right_neighbour     // and only when its right neighbour is decided
};

// When the block has no mask left, its pending tokens may share a forward with the next block.
enum class fusion_mode : std::uint8_t {
  off,
  fill,  // with as many of its masks as the chunk still holds
  full   // with a whole chunk of its masks: the two forwards of `off` in one, token for token
};

struct chunk_settings {
  std::int32_t block = 32;
  chunk_policy policy = chunk_policy::streaming;
  cache_rule rule = cache_rule::any_decoded;
  fusion_mode fusion = fusion_mode::off;
  bool compact_slots = true;  // see chunk_params
};

// One request's part of a step.
struct chunk_request {
  std::int32_t first = 0;  // of the current block, a multiple of block
  std::int32_t last = 0;   // end of the positions in play without fusion; first: not in this step
  std::int32_t limit = 0;  // end of the canvas
  std::int32_t size = 0;   // most positions
  bool whole = false;      // everything in [first, last): a prefill or the refresh of a block
};

// Lists of one step, sized by the caller: begin [S+1], the others one entry per row.
struct chunk_rows {
  std::int32_t* begin = nullptr;
  std::int32_t* sequence = nullptr;
  std::int32_t* position = nullptr;
  std::int32_t* slot = nullptr;
  std::uint8_t* settles = nullptr;
};

class chunk_builder {
 public:
  chunk_builder(const backend& backend, const chunk_settings& settings)
      : run_(&backend), settings_(settings) {}
  // Fills `out` and returns the number of rows; state [S, length] uint8. Where boundary fusion
  // applies, `requests[s].last` becomes the end of the next block.
  std::int32_t build(const tensor_view& state, std::vector<chunk_request>& requests,
                     const chunk_rows& out);
  const chunk_settings& settings() const { return settings_; }

 private:
  const backend* run_;
  chunk_settings settings_;
  shared_vector<std::int32_t> first_, last_, size_;
};

}  // namespace unmask
