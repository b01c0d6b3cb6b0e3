// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// In which parts the logits of the candidates are made. A product fills a GPU in waves of tiles, one
// a multiprocessor, and its last wave may be nearly empty: 547 candidates times three slices are 120
// tiles of 128 x 256, times four 160, but of 192 x 192 no more than 129. Whole groups of 1024
// candidates and as many slices as fill waves leave less idle.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/row_buckets.h"

namespace unmask::cuda {

constexpr int head_slice = 2048;  // tokens that one warp folds
// Bytes of logits that a chunk may have: about half of the L2 cache of an A100 or H100.
constexpr std::int64_t head_chunk_bytes = std::int64_t{24} << 20;
constexpr std::int64_t head_group = 1024;  // candidates at once

struct head_chunk {
  std::int64_t rows, columns;
};

// Waves of tiles of y in a product of rows x columns, times a tile's area: proportional to its time,
// but for what a product costs beside its waves. The library's large tiles have one side a multiple
// of 64, the other of 8, and at most 320 x 128 elements; the best is taken, as tuning would. L2 gives
// a tile its operands, of which two blocks share the larger, as fast as tiles of 128 x 256 take them.
inline std::int64_t head_wave_area(std::int64_t rows, std::int64_t columns,
                                   std::int64_t multiprocessors) {
  std::int64_t least = INT64_MAX;
  const auto parts = [](std::int64_t all, std::int64_t each) { return (all + each - 1) / each; };
  for (std::int64_t a = 128; a <= 320; a += 64) {
    for (std::int64_t b = 128; b <= 256 && a * b <= 320 * 128; b += 8) {
      const std::int64_t tiles =
          std::min(parts(rows, a) * parts(columns, b), parts(rows, b) * parts(columns, a));
      const std::int64_t loads = tiles * (a + b - std::max(a, b) / 2) * 128 / multiprocessors;
      least = std::min(least, std::max(parts(tiles, multiprocessors) * a * b, loads));
    }
  }
  return least;
}

// Of `rows` candidates: how many at once, and of how many tokens, a multiple of head_slice or all.
// Which slices there are and what they hold does not depend on it. Few rows have the chunks of their
// bucket, or every number of candidates were products of its own to tune. Beside its waves a chunk
// costs two launches, about a fifth of a wave of tiles of 128 x 256 where rows have 4096 elements.
inline head_chunk head_chunk_of(std::int64_t rows, std::int64_t vocabulary, bool split_rows,
                                std::int64_t multiprocessors) {
  constexpr std::int64_t beside = 128 * 256 / 5;
  if (split_rows) rows = std::min(rows, head_group);
  const std::int64_t slices = (vocabulary + head_slice - 1) / head_slice;
  const std::int64_t sized = rows <= 128 ? row_bucket(rows) : rows;
  const std::int64_t most = std::clamp<std::int64_t>(
      head_chunk_bytes / (sized * head_slice * std::int64_t{sizeof(float)}), 1, slices);
  std::int64_t at_once = most;
  if (rows > 128) {  // fewer only read weights
    const auto cost = [&](std::int64_t n) {
      const auto area = [&](std::int64_t part) {
        return part > 0 ? head_wave_area(rows, part * head_slice, multiprocessors) + beside : 0;
      };
      return slices / n * area(n) + area(slices % n);
    };
    std::int64_t least = cost(most);
    for (std::int64_t n = most - 1; n > most / 3; --n) {
      if (const std::int64_t all = cost(n); all < least) {
        least = all;
        at_once = n;
      }
    }
  }
  return {rows, std::min(vocabulary, at_once * head_slice)};
}

}  // namespace unmask::cuda
