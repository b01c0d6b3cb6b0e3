// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The tiles of the head's product whose logits stay in registers (head_product_kernels.h), which the cost model counts
// too.
#pragma once

#include <cstdint>

namespace unmask::cuda {

// Candidates and tokens of a block's tile, and k of a step. Blocks of a cluster have the same candidates.
constexpr int head_tile_rows = 256, head_tile_tokens = 192, head_tile_depth = 64;
constexpr int head_tile_stages = 4, head_tile_cluster = 2;

constexpr std::int64_t head_row_tiles(std::int64_t candidates) {
  return (candidates + head_tile_rows - 1) / head_tile_rows;
}
constexpr std::int64_t head_token_tiles(std::int64_t tokens) {
  return (tokens + head_tile_tokens - 1) / head_tile_tokens;
}
// What one cluster after another computes: tiles of the same candidates and neighbouring tokens.
constexpr std::int64_t head_tile_items(std::int64_t candidates, std::int64_t tokens) {
  return head_row_tiles(candidates) *
         ((head_token_tiles(tokens) + head_tile_cluster - 1) / head_tile_cluster);
}
// Up to 128 candidates only read weights, at which the library is as good. More fill one tile, of which the
// weights take as long as the products, or 85 % of several.
constexpr bool head_tiles_pay(std::int64_t candidates) {
  const std::int64_t tiles = head_row_tiles(candidates);
  return candidates > head_tile_rows / 2 &&
         (tiles == 1 || candidates * 20 >= tiles * head_tile_rows * 17);
}

}  // namespace unmask::cuda
