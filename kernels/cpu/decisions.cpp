// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed; -infinity and NaN scores are not eligible. Ranking sorts 64-bit
// keys (rank_key), and only as far as it must.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/scratch.h"
#include "kernels/decisions.h"
#include "kernels/noise.h"

namespace unmask::cpu {

std::uint64_t rank_key(float score, std::uint32_t index) {
  // Adding +0 turns -0 into +0, so that the two tie. The map below grows with the float: flip all
  // bits of negatives and the sign of the rest. NaN takes 0, below -infinity.
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(score + 0.0F);
  std::uint32_t grows = (bits >> 31) != 0 ? ~bits : bits | 0x80000000U;
  if (std::isnan(score)) grows = 0;
  return (std::uint64_t{~grows} << 32) | index;
}

namespace {

bool eligible(float score) {
  return score > -std::numeric_limits<float>::infinity();
}

// Keys of the eligible candidates of sequence s, unsorted; returns their number.
std::int32_t eligible_keys(const candidate_set& candidates, const float* score, std::int32_t s,
                           std::uint64_t* key) {
  std::int32_t m = 0;
  for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
    if (eligible(score[c])) key[m++] = rank_key(score[c], static_cast<std::uint32_t>(c));
  }
  return m;
}

std::uint64_t* key_memory(std::int32_t count) {
  thread_local scratch memory;
  return memory.get<std::uint64_t>(std::int64_t{count});
}

void accept_keys(const std::uint64_t* key, std::int32_t n, std::uint8_t* accept) {
  for (std::int32_t i = 0; i < n; ++i) accept[static_cast<std::uint32_t>(key[i])] = 1;
}

void accept_top(const op::accept_top& args) {
  std::uint64_t* key = key_memory(args.candidates.count);
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t m = eligible_keys(args.candidates, args.score, s, key);
    const std::int32_t n = std::clamp(args.quota[s], 0, m);
    if (n < m) std::nth_element(key, key + n, key + m);
    accept_keys(key, n, args.accept);
  }
}

void accept_threshold(const op::accept_threshold& args) {
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    std::int32_t best = -1;
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const bool passes =
          args.strict ? args.score[c] > args.threshold : args.score[c] >= args.threshold;
      args.accept[c] = passes && eligible(args.score[c]) ? 1 : 0;
      if (eligible(args.score[c]) && (best < 0 || args.score[c] > args.score[best])) best = c;
    }
    if (args.always_best && best >= 0) args.accept[best] = 1;
  }
}

}  // namespace

const register_operations<accept_top, accept_threshold> registered(target::cpu);

}  // namespace unmask::cpu
