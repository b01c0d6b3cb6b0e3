// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which of the library's algorithms for a product is taken. Of those as good as the fastest it is the one whose
// blocks read the fewest bytes from L2: bytes cost power, and a card at its power cap loses clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unmask::cuda {

// Columns and rows of y in a block's tile; 0: unknown. Blocks of a cluster in both directions share what they
// read. Parts of k whose sums are added.
struct product_tile {
  std::int64_t columns = 0, rows = 0;
  std::int64_t across = 1, down = 1;
  std::int64_t parts = 1;
};

// Bytes that all blocks read from L2 for y [rows, columns], of operands with so many bytes an element, and of
// float32 sums of parts, which are written and read; 0: unknown.
constexpr double bytes_read(const product_tile& t, std::int64_t rows, std::int64_t columns,
                            std::int64_t depth, std::int64_t element) {
  if (t.columns == 0 || t.rows == 0) return 0;
  const auto times = [](std::int64_t all, std::int64_t each) { return (all + each - 1) / each; };
  const std::int64_t elements =
      columns * times(rows, t.rows * t.down) + rows * times(columns, t.columns * t.across);
  const std::int64_t sums = t.parts > 1 ? 8 * t.parts * rows * columns : 0;
  return static_cast<double>(elements * depth * element + sums);
}

struct timed_algorithm {
  double seconds = 0;
  double bytes = 0;  // 0: unknown
};
constexpr double as_good_as = 1.05;

// The index of the one to take; `all` has one at least.
inline std::size_t best_of(const std::vector<timed_algorithm>& all) {
  const auto fastest = std::ranges::min_element(all, {}, &timed_algorithm::seconds);
  auto best = fastest;
  for (auto at = all.begin(); at != all.end() && fastest->bytes > 0; ++at) {
    const bool as_good = at->bytes > 0 && at->seconds <= as_good_as * fastest->seconds;
    const bool fewer = at->bytes < best->bytes;
    if (as_good && (fewer || (at->bytes == best->bytes && at->seconds < best->seconds))) best = at;
  }
  return static_cast<std::size_t>(best - all.begin());
}

}  // namespace unmask::cuda
