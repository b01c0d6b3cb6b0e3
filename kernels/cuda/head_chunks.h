// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// In which parts the logits of the candidates are made. A product fills a GPU in waves of tiles, one
// a multiprocessor: 4369 candidates times one slice are 280 tiles of 128 x 256 and take three waves
// of 132, of which the last is nearly empty. Whole groups of 1024 candidates and as many slices as
// fill waves leave less idle.
#pragma once

#include <algorithm>
#include <cstdint>

namespace unmask::cuda {

constexpr int head_slice = 2048;  // tokens that one warp folds
// Bytes of logits that a chunk may have: about half of the L2 cache of an A100 or H100.
constexpr std::int64_t head_chunk_bytes = std::int64_t{24} << 20;
constexpr std::int64_t head_group = 1024;  // candidates at once

struct head_chunk {
  std::int64_t rows, columns;
};

// Of `rows` candidates: how many at once, and of how many tokens, a multiple of head_slice or all.
// Which slices there are and what they hold does not depend on it. Costs are in tenths of a wave,
// which a chunk costs beside its products.
inline head_chunk head_chunk_of(std::int64_t rows, std::int64_t vocabulary, bool split_rows,
                                std::int64_t multiprocessors) {
  constexpr std::int64_t tile_rows = 128, tile_columns = 256;
  if (split_rows) rows = std::min(rows, head_group);
  const std::int64_t slices = (vocabulary + head_slice - 1) / head_slice;
  const std::int64_t most = std::clamp<std::int64_t>(
      head_chunk_bytes / (rows * head_slice * std::int64_t{sizeof(float)}), 1, slices);
  std::int64_t at_once = most;
  if (rows > tile_rows) {
    const auto waves = [&](std::int64_t n) {
      const std::int64_t tiles =
          (rows + tile_rows - 1) / tile_rows * n * (head_slice / tile_columns);
      return (tiles + multiprocessors - 1) / multiprocessors;
    };
    const auto cost = [&](std::int64_t n) {
      return 10 * (slices / n * waves(n) + waves(slices % n)) + (slices + n - 1) / n;
    };
    for (std::int64_t n = most - 1; n > 0; --n) at_once = cost(n) < cost(at_once) ? n : at_once;
  }
  return {rows, std::min(vocabulary, at_once * head_slice)};
}

}  // namespace unmask::cuda
