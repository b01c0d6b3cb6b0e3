// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Lists as long as their reader was made for, for backends whose memory the host writes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

namespace unmask {

// Entries n .. padded - 1 become nobody's: -1 in `sequence` (may be null), 0 in the other columns.
// Returns the length: n where `padded` is 0.
inline std::int32_t pad_list(std::int32_t n, std::int32_t padded, std::int32_t* sequence,
                             std::initializer_list<std::int32_t*> columns) {
  if (padded == 0) return n;
  if (n > padded) throw std::logic_error("a list is longer than its padded length");
  if (sequence != nullptr) std::fill(sequence + n, sequence + padded, -1);
  for (std::int32_t* column : columns) std::fill(column + n, column + padded, 0);
  return padded;
}

}  // namespace unmask
