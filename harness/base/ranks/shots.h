// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The two ways in which a sum over n ranks moves, and the bytes that a rank receives by each. S: bytes of a
// part; its elements may travel as bfloat16, and sums are float32.
//
//   one shot    the parts of all others, and every rank adds them all          (n - 1) S
//   two shots   a stretch of every part, which the rank adds, then the sums    (n - 1) / n (S + float32 S)
//               that the others found of theirs
//
// An element's parts are added in one order (kernels/ranks.h), so that both have the same bits. Of float32
// two shots move less from three ranks on, 2 (n - 1) / n S, and of bfloat16 from four.
#pragma once

#include <algorithm>
#include <cstdint>

namespace unmask {

// Parts of more bytes than these take two shots, if those move less. A guess: no machine with several GPUs
// has measured where they become faster. Key `two_shots` of a run sets it.
inline constexpr std::int64_t two_shots_above = std::int64_t{512} << 10;

constexpr double bytes_in_one_shot(double elements, double element_bytes, double ranks) {
  return (ranks - 1) * elements * element_bytes;
}
constexpr double bytes_in_two_shots(double elements, double element_bytes, double ranks) {
  return (ranks - 1) * (elements / ranks) * (element_bytes + sizeof(float));
}

// A sum of `elements` numbers, of which each travels in `element_bytes`.
struct rank_sum {
  std::int64_t elements, element_bytes;
  int ranks;

  std::int64_t bytes() const { return elements * element_bytes; }
  // Elements of a rank's stretch, whose ends lie at 16 bytes: the last stretches may have fewer, or none.
  std::int64_t stretch() const {
    constexpr std::int64_t step = 8;
    return (elements + ranks * step - 1) / (ranks * step) * step;
  }
  std::int64_t first(int rank) const { return std::min(elements, rank * stretch()); }
  std::int64_t count(int rank) const { return first(rank + 1) - first(rank); }
  // The same on every rank: what rank 0 receives decides, than which none receives more.
  bool takes_two_shots(std::int64_t above) const {
    const auto each = static_cast<double>(element_bytes), n = static_cast<double>(ranks);
    const auto whole = static_cast<double>(elements), padded = n * static_cast<double>(stretch());
    return bytes() > above &&
           bytes_in_two_shots(padded, each, n) < bytes_in_one_shot(whole, each, n);
  }
};

}  // namespace unmask
