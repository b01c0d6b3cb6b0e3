// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed; -infinity and NaN scores are not eligible. Ranking sorts 64-bit
// keys (rank_key), and only as far as it must.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/scratch.h"
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

}  // namespace

void backend::accept_top(const candidate_set& candidates, const float* score,
                         const std::int32_t* quota, std::uint8_t* accept) const {
  std::uint64_t* key = key_memory(candidates.count);
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const std::int32_t m = eligible_keys(candidates, score, s, key);
    const std::int32_t n = std::clamp(quota[s], 0, m);
    if (n < m) std::nth_element(key, key + n, key + m);
    accept_keys(key, n, accept);
  }
}

void backend::accept_threshold(const candidate_set& candidates, const float* score, float threshold,
                               bool strict, bool always_best, std::uint8_t* accept) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    std::int32_t best = -1;
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const bool passes = strict ? score[c] > threshold : score[c] >= threshold;
      accept[c] = passes && eligible(score[c]) ? 1 : 0;
      if (eligible(score[c]) && (best < 0 || score[c] > score[best])) best = c;
    }
    if (always_best && best >= 0) accept[best] = 1;
  }
}

void backend::accept_factor(const candidate_set& candidates, const float* score, float factor,
                            std::uint8_t* accept) const {
  std::uint64_t* key = key_memory(candidates.count);
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const std::int32_t m = eligible_keys(candidates, score, s, key);
    if (m == 0) continue;
    std::sort(key, key + m);
    std::int32_t t = m - 1;
    for (std::int32_t i = 0; i < m; ++i) {
      const double threshold = i == 0 ? -1.0 : 1.0 - double{factor} / (i + 2);
      if (double{score[static_cast<std::uint32_t>(key[i])]} < threshold) {
        t = i;
        break;
      }
    }
    accept_keys(key, t == 0 || t == m - 1 ? t + 1 : t, accept);
  }
}

void backend::accept_sequential(const candidate_set& candidates, const std::int32_t* block_begin,
                                std::int32_t block, const std::int32_t* quota,
                                std::uint8_t* accept) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    // Candidates ascend, so none of the block lies before its first one and nothing wraps round.
    std::int32_t first = -1;
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const std::int32_t p = candidates.position[c];
      const bool inside = p >= block_begin[s] && p < block_begin[s] + block;
      if (inside && first < 0) first = p;
      accept[c] = inside && p - first < quota[s] ? 1 : 0;
    }
  }
}

void backend::uniform_scores(const candidate_set& candidates, const noise_source& noise,
                             float* score) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const double u = uniform_open(noise_key(candidates, noise, s, c), score_draw);
      score[c] = std::min(static_cast<float>(u), 0x1.fffffep-1F);
    }
  }
}

void backend::gumbel_scores(const candidate_set& candidates, const noise_source& noise,
                            float temperature, float* score) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const double u = uniform_open(noise_key(candidates, noise, s, c), score_draw);
      score[c] = static_cast<float>(double{score[c]} / temperature - std::log(-std::log(u)));
    }
  }
}

void backend::commit(const candidate_set& candidates, const std::int32_t* token,
                     const std::uint8_t* accept, std::uint8_t decoded_state, std::int32_t mask_id,
                     const tensor_view& canvas, const tensor_view& state,
                     std::int32_t* committed) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    std::int32_t* tokens = canvas.row<std::int32_t>(s);
    std::uint8_t* states = state.row<std::uint8_t>(s);
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      if (accept[c] == 0 || token[c] == mask_id) continue;
      tokens[candidates.position[c]] = token[c];
      states[candidates.position[c]] = decoded_state;
      ++committed[s];
    }
  }
}

}  // namespace unmask::cpu
