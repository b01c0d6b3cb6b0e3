// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Counter-based random numbers (Philox-4x32-10, Salmon et al., SC 2011): a draw depends only on
// its key and counter, so noise does not change with batch size, thread count or order.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace unmask {

struct philox4 {
  std::uint32_t x[4];
};

UNMASK_HOST_DEVICE inline philox4 philox4x32(std::uint64_t key, std::uint64_t counter_high,
                                             std::uint64_t counter_low) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  philox4 c{{static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
             static_cast<std::uint32_t>(counter_high),
             static_cast<std::uint32_t>(counter_high >> 32)}};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * c.x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c.x[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.x[1] ^ k0, static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.x[3] ^ k1, static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return c;
}

// Uniform in (0, 1), never 0 or 1: draw `index` of stream `key`.
UNMASK_HOST_DEVICE inline double uniform_open(std::uint64_t key, std::uint64_t index) {
  const philox4 r = philox4x32(key, 0, index);
  const std::uint64_t bits = (std::uint64_t{r.x[0]} << 32) | r.x[1];
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1.0p-52;  // exact: at most 1 - 2^-53
}

// Draw of a candidate's own score (random remasking): beyond every token's draw, which has the
// token's index.
inline constexpr std::uint64_t score_draw = std::uint64_t{1} << 32;

// Key of an independent stream: seed, purpose and up to two coordinates mixed.
UNMASK_HOST_DEVICE inline std::uint64_t stream_key(std::uint64_t seed, std::uint64_t a,
                                                   std::uint64_t b = 0) {
  const philox4 r = philox4x32(seed, a, b);
  return (std::uint64_t{r.x[2]} << 32) | r.x[3];
}

}  // namespace unmask
