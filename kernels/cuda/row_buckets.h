// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Numbers of rows for which graphs are recorded and products are tuned, the same for both: the
// algorithm of a recorded product was timed with the rows it has. The cost model pads rows alike.
#pragma once

#include <cstdint>

namespace unmask::cuda {

// Above this a layer should run for longer than the host takes to launch it (not measured).
constexpr std::int64_t max_graph_rows = 2048;

// `rows`, at least 1, rounded up. Up to 128 the weights are what a product reads, and rows cost next
// to nothing: powers of two. Then multiples of 16 to 512, where a padded row costs its share of a
// layer, of 128, the rows of a tile of the library's products, to 2048, and of 1024.
inline std::int64_t row_bucket(std::int64_t rows) {
  if (rows > 128) {
    const std::int64_t step = rows <= 512 ? 16 : rows <= max_graph_rows ? 128 : 1024;
    return (rows + step - 1) / step * step;
  }
  std::int64_t bucket = 1;
  while (bucket < rows) bucket *= 2;
  return bucket;
}

}  // namespace unmask::cuda
