// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed. A candidate whose score is -infinity or NaN is not eligible: it
// is never accepted and never counted.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/noise.h"
#include "kernels/reference/ops.h"

namespace unmask::reference {

namespace {

// Eligible candidates of sequence s, best first; ties go to the lowest index.
std::vector<std::int32_t> ranked(const candidate_set& candidates, const float* score,
                                 std::int32_t s) {
  std::vector<std::int32_t> order;
  for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
    if (score[c] > -std::numeric_limits<float>::infinity()) order.push_back(c);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return score[a] > score[b]; });
  return order;
}

}  // namespace

// The quota[s] best.
void backend::accept_top(const candidate_set& candidates, const float* score,
                         const std::int32_t* quota, std::uint8_t* accept) const {
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const auto order = ranked(candidates, score, s);
    const auto m = static_cast<std::int32_t>(order.size());
    for (std::int32_t i = 0; i < std::min(quota[s], m); ++i) accept[order[i]] = 1;
  }
}

// {score >= threshold} (strict: >), and the best when always_best.
void backend::accept_threshold(const candidate_set& candidates, const float* score, float threshold,
                               bool strict, bool always_best, std::uint8_t* accept) const {
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const auto order = ranked(candidates, score, s);
    for (const std::int32_t c : order) {
      const bool passes = strict ? score[c] > threshold : score[c] >= threshold;
      if (passes || (always_best && c == order.front())) accept[c] = 1;
    }
  }
}

// Sorted descending c_1 .. c_m; thr_1 = -1, thr_n = 1 - factor / (n + 1). t = 0-based index of the
// first c_{t+1} < thr_{t+1}, m - 1 when there is none; t == 0 or t == m - 1 adds one; accept t.
void backend::accept_factor(const candidate_set& candidates, const float* score, float factor,
                            std::uint8_t* accept) const {
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const auto order = ranked(candidates, score, s);
    const auto m = static_cast<std::int32_t>(order.size());
    if (m == 0) continue;
    std::int32_t t = m - 1;
    for (std::int32_t i = 0; i < m; ++i) {
      const double threshold = i == 0 ? -1.0 : 1.0 - double{factor} / (i + 2);
      if (double{score[order[i]]} < threshold) {
        t = i;
        break;
      }
    }
    if (t == 0 || t == m - 1) ++t;
    for (std::int32_t i = 0; i < t; ++i) accept[order[i]] = 1;
  }
}

// f = the first candidate inside [block_begin, block_begin + block); accept the candidates of the
// block whose distance from f, modulo the block, is below the quota.
void backend::accept_sequential(const candidate_set& candidates, const std::int32_t* block_begin,
                                std::int32_t block, const std::int32_t* quota,
                                std::uint8_t* accept) const {
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    std::int32_t first = -1;
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const std::int32_t p = candidates.position[c];
      if (p < block_begin[s] || p >= block_begin[s] + block) continue;
      if (first < 0) first = p;
      if (((p - first) % block + block) % block < quota[s]) accept[c] = 1;
    }
  }
}

// score_c = u_c, kept below 1 in float32.
void backend::uniform_scores(const candidate_set& candidates, const noise_source& noise,
                             float* score) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const double u = uniform_open(noise_key(candidates, noise, s, c), score_draw);
      score[c] = std::min(static_cast<float>(u), 0x1.fffffep-1F);
    }
  }
}

// score_c = score_c / temperature - ln(-ln u_c).
void backend::gumbel_scores(const candidate_set& candidates, const noise_source& noise,
                            float temperature, float* score) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const double u = uniform_open(noise_key(candidates, noise, s, c), score_draw);
      score[c] = static_cast<float>(double{score[c]} / temperature - std::log(-std::log(u)));
    }
  }
}

// canvas[s, p] = token, state[s, p] = decoded_state for the accepted; committed[s] += their number.
// Nothing happens where the token is mask_id.
void backend::commit(const candidate_set& candidates, const std::int32_t* token,
                     const std::uint8_t* accept, std::uint8_t decoded_state, std::int32_t mask_id,
                     const tensor_view& canvas, const tensor_view& state,
                     std::int32_t* committed) const {
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      if (accept[c] == 0 || token[c] == mask_id) continue;
      canvas.row<std::int32_t>(s)[candidates.position[c]] = token[c];
      state.row<std::uint8_t>(s)[candidates.position[c]] = decoded_state;
      ++committed[s];
    }
  }
}

}  // namespace unmask::reference
