// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How attention on tensor cores (attention_tensor_kernels.h) is divided into items. An item is a
// tile of rows with a piece of the keys. The cost model divides in the same way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"

namespace unmask::cuda {

constexpr int tensor_keys = 64;  // keys per tile: one page if keys are not listed
constexpr int tensor_stages = 2;
constexpr int least_piece = 8;   // tiles of keys: 512 keys
constexpr int joined_piece = 4;  // the same if no other kernel merges: 256 keys

// Returns the packed rows of an item (tokens times the heads that share a kv head): the smallest
// tile that holds those of an average sequence. Further rows would be computed for nothing, and
// keys are read once for all rows of a tile.
constexpr int tensor_tile_rows(std::int64_t average) {
  return average <= 16 ? 16 : (average <= 32 ? 32 : (average <= 64 ? 64 : 128));
}

constexpr std::size_t tensor_shared_bytes(int dim, int rows, int stages) {
  return static_cast<std::size_t>(rows + stages * 2 * tensor_keys) * static_cast<std::size_t>(dim) *
             2 +
         static_cast<std::size_t>(rows) * sizeof(std::int32_t);
}

// Returns the blocks that a multiprocessor holds. Shared memory, of which one may have
// `shared_bytes`, and registers limit them. A thread takes up to 255 registers, and half of that if
// eight warps share 128 rows.
constexpr int tensor_blocks(int dim, int tile_rows, int shared_bytes) {
  constexpr int reserved = 1024;  // of each block, by CUDA
  const auto each = static_cast<int>(tensor_shared_bytes(dim, tile_rows, tensor_stages)) + reserved;
  return std::max(1, std::min((shared_bytes + reserved) / each, std::max(2, 128 / tile_rows)));
}

// Attention of many rows (attention_refresh_kernels.h): packed rows and keys of a tile, and packed rows of the mean
// sequence from which on an item is worth a multiprocessor of its own.
constexpr int refresh_tile_rows = 128, refresh_keys = 128;
constexpr std::int64_t refresh_rows = 1024;

constexpr int tensor_cuts = 16;
// Returns the tiles of keys of a piece if the longest sequence is cut into 1, 2, 3, 4, 6, 8, 12,
// ... 192 pieces (`cut` 0, 1, ...). No piece is smaller than `finest`.
UNMASK_HOST_DEVICE inline std::int64_t tensor_share(int longest, int cut, std::int64_t finest) {
  const int pieces = ((2 + cut % 2) << (cut / 2)) / 2;
  const std::int64_t share = (longest + pieces - 1) / pieces;
  return share > finest ? share : finest;
}
// Returns how many pieces so many tiles of keys make.
UNMASK_HOST_DEVICE inline int tensor_pieces(int tiles, std::int64_t share) {
  return tiles > share ? static_cast<int>((tiles + share - 1) / share) : 1;
}

// Attention by clusters (attention_cluster_kernels.h): blocks that share the keys of a tile of rows, and keys from
// which on this may pay.
constexpr int cluster_blocks = 8;
constexpr int least_cluster_keys = joined_piece * tensor_keys;

// Returns the packed rows of an item: at most 64, because a cluster's blocks read each other's sums, and
// few sequences leave multiprocessors idle otherwise.
constexpr int cluster_tile_rows(std::int64_t average) {
  return std::min(64, tensor_tile_rows(average));
}

// With its largest scores, its sums of weights, and what a block notes of its item.
constexpr std::size_t cluster_shared_bytes(int dim, int rows) {
  return tensor_shared_bytes(dim, rows, tensor_stages) +
         static_cast<std::size_t>(rows) * 2 * sizeof(float) + 4 * sizeof(std::int32_t);
}

// Whether clusters are faster than the work list for this many items, of sequences with so many packed rows
// in the mean, with so many tiles of keys. All clusters have to run at once: `at_once` blocks on each
// multiprocessor. A block takes an eighth of the keys, however many multiprocessors are idle. The work list
// spreads pieces evenly, but none is shorter than joined_piece, and it takes the time of some tiles more to
// store parts and to merge them. Its tiles of 128 rows take 7/4 of the time of a tile here.
constexpr bool clusters_pay(std::int64_t average, std::int64_t items, std::int64_t key_tiles,
                            std::int64_t multiprocessors, std::int64_t at_once) {
  const bool wide = tensor_tile_rows(average) == 128;
  const std::int64_t blocks = items * cluster_blocks;
  const std::int64_t each = (blocks + multiprocessors - 1) / multiprocessors;
  const std::int64_t longest = (key_tiles + cluster_blocks - 1) / cluster_blocks * each;
  const std::int64_t even = (key_tiles * items + multiprocessors - 1) / multiprocessors;
  if (each > at_once) return false;
  if (wide) return longest <= std::max<std::int64_t>(even, 2 * joined_piece) * 7 / 8 + 6;
  return longest <= std::max<std::int64_t>(even, joined_piece) + 2;
}

// What the work costs if it is cut. It is the larger of two times: that of its longest piece, and
// that of its waves, if pieces of the mean size fill the device. What is stored and read again for
// the parts comes on top. The unit is a 32nd of a tile of keys, times the blocks that run at once:
// a part of a row is dim + 2 floats, written and read, and a tile has 64 keys and values of dim
// bfloat16.
struct tensor_cutting {
  std::int64_t pieces = 0, parts = 0;  // parts: pieces of sequences that are cut
  std::int32_t longest = 0;            // piece, in tiles of keys
};
UNMASK_HOST_DEVICE inline std::int64_t tensor_cost(const tensor_cutting& c, std::int64_t work,
                                                   int places, int tile_rows) {
  if (c.pieces == 0) return 0;
  const std::int64_t waves = (c.pieces + places - 1) / places;
  const std::int64_t alone = std::int64_t{c.longest} * places,
                     together = waves * places * work / c.pieces;
  return 32 * (alone > together ? alone : together) + tile_rows * c.parts;
}

}  // namespace unmask::cuda
