// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's decision without a sort: two selections on 64-bit keys, then one pass. With squared
// distances |v - h|^2 < |v - b|^2 is linear in v: (h - b) . (2 v - h - b) > 0.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/scratch.h"

namespace unmask::cpu {

namespace {

struct centroids {
  const double* high;
  const double* boundary;
  std::int64_t m;
};

double average(const double* v, std::int64_t m) {
  double sum = 0;
  for (std::int64_t d = 0; d < m; ++d) sum += v[d];
  return sum / static_cast<double>(m);
}

double cosine(const float* v, const double* c, std::int64_t m) {
  double vc = 0, vv = 0, cc = 0;
  for (std::int64_t d = 0; d < m; ++d) {
    vc += double{v[d]} * c[d];
    vv += double{v[d]} * v[d];
    cc += c[d] * c[d];
  }
  return vv > 0 && cc > 0 ? vc / (std::sqrt(vv) * std::sqrt(cc)) : 0.0;
}

bool closer_to_high(const float* v, const centroids& c, const freeze_params& params) {
  double side = 0;
  switch (params.rule) {
    case freeze_rule::threshold:
      return v[0] > params.threshold;
    case freeze_rule::moving_average: {
      for (std::int64_t d = 0; d < c.m; ++d) side += v[d];
      side /= static_cast<double>(c.m);
      return side > (params.threshold > 0 ? double{params.threshold}
                                          : (average(c.high, c.m) + average(c.boundary, c.m)) / 2);
    }
    case freeze_rule::manhattan:
      for (std::int64_t d = 0; d < c.m; ++d) {
        side += std::fabs(v[d] - c.boundary[d]) - std::fabs(v[d] - c.high[d]);
      }
      return side > 0;
    case freeze_rule::cosine:
      return cosine(v, c.high, c.m) > cosine(v, c.boundary, c.m) + cosine_tie;
    case freeze_rule::squared_euclidean:
      break;
  }
  for (std::int64_t d = 0; d < c.m; ++d) {
    double w = c.high[d] - c.boundary[d];
    if (params.clamp_weights) w = std::max(w, 0.0);
    side += w * (2.0 * v[d] - (c.high[d] + c.boundary[d]));
  }
  return side > 0;
}

bool eligible(float score) {
  return score > -std::numeric_limits<float>::infinity();
}

}  // namespace

void backend::push_history(const candidate_set& candidates, const float* score, bool replicate,
                           const tensor_view& history) const {
  const std::int64_t m = history.shape[2];
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    float* rows = history.row<float>(s);
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      float* row = rows + candidates.position[c] * m;
      if (replicate && row[0] == 0.0F) {
        std::fill_n(row, m, score[c]);
      } else {
        std::copy_backward(row, row + m - 1, row + m);
        row[0] = score[c];
      }
    }
  }
}

void backend::freeze_two_centroids(const candidate_set& candidates, const tensor_view& history,
                                   const std::int32_t* rank, const freeze_params& params,
                                   std::uint8_t* accept) const {
  const std::int64_t m = history.shape[2];
  thread_local scratch key_memory, centroid_memory;
  double* const means = centroid_memory.get<double>(2 * m);
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const float* rows = history.row<float>(s);
    const std::int32_t first = params.first ? params.first[s] : 0;
    const std::int32_t last =
        params.last ? params.last[s] : std::numeric_limits<std::int32_t>::max();
    const std::int32_t begin = candidates.begin[s], end = candidates.begin[s + 1];
    std::fill(accept + begin, accept + end, std::uint8_t{0});
    const auto in_play = [&](std::int32_t c) {
      const std::int32_t p = candidates.position[c];
      return p >= first && p < last && eligible(rows[p * m]);
    };

    // Keys of what is ranked, and the best candidate (lowest position on ties).
    auto* key = key_memory.get<std::uint64_t>(
        std::int64_t{std::max(params.rank_all ? last - first : 0, end - begin)} + 1);
    std::int32_t n = 0, active = 0, best = -1;
    for (std::int32_t c = begin; c < end; ++c) {
      if (!in_play(c)) continue;
      ++active;
      const std::int32_t p = candidates.position[c];
      if (best < 0 || rows[p * m] > rows[candidates.position[best] * m]) best = c;
      if (!params.rank_all) key[n++] = rank_key(rows[p * m], static_cast<std::uint32_t>(p));
    }
    if (active == 0) continue;
    if (rank[s] < 0 || (params.all_when_short && active <= rank[s])) {
      for (std::int32_t c = begin; c < end; ++c) accept[c] = in_play(c) ? 1 : 0;
      continue;
    }
    if (params.rank_all) {
      for (std::int32_t p = first; p < last; ++p) {
        if (eligible(rows[p * m])) key[n++] = rank_key(rows[p * m], static_cast<std::uint32_t>(p));
      }
    }

    const auto mean_of_keys = [&](std::int32_t from, std::int32_t to, double* mean) {
      std::fill_n(mean, m, 0.0);
      for (std::int32_t i = from; i < to; ++i) {
        const float* row = rows + static_cast<std::uint32_t>(key[i]) * m;
        for (std::int64_t d = 0; d < m; ++d) mean[d] += row[d];
      }
      for (std::int64_t d = 0; d < m; ++d) mean[d] /= to - from;
    };
    const std::int32_t k = std::clamp(rank[s], 1, std::max(n - 1, 1));
    const std::int32_t boundary = std::min(k, n - 1), tier = params.tier_mean ? k : 1;
    std::nth_element(key, key + boundary, key + n);
    if (tier == 1) {
      if (boundary > 0) std::iter_swap(key, std::min_element(key, key + boundary));
    } else if (boundary + tier < n) {
      std::nth_element(key + boundary + 1, key + boundary + tier, key + n);
    }
    mean_of_keys(0, std::min(tier, n), means);
    mean_of_keys(boundary, std::min(boundary + tier, n), means + m);

    const centroids c2{means, means + m, m};
    std::int32_t frozen = 0;
    for (std::int32_t c = begin; c < end; ++c) {
      if (!in_play(c)) continue;
      const float* v = rows + candidates.position[c] * m;
      if (!(v[0] >= params.floor) || !closer_to_high(v, c2, params)) continue;
      accept[c] = 1;
      key[frozen++] = rank_key(v[0], static_cast<std::uint32_t>(c));
    }
    const std::int32_t limit = params.limit ? std::max(params.limit[s], 0) : frozen;
    if (frozen > limit) {
      std::nth_element(key, key + limit, key + frozen);
      for (std::int32_t i = limit; i < frozen; ++i) accept[static_cast<std::uint32_t>(key[i])] = 0;
      frozen = limit;
    }
    if (frozen == 0 && params.always_best) accept[best] = 1;
  }
}

void backend::mark_unsettled(const tensor_view& state, const settle_params& params,
                             const std::int32_t* first, const std::int32_t* last,
                             const std::uint8_t* whole, const tensor_view& flags) const {
  for (std::int64_t s = 0; s < state.rows(); ++s) {
    std::uint8_t* at = state.row<std::uint8_t>(s);
    std::uint8_t* flag = flags.row<std::uint8_t>(s);
    // Right to left, so that the neighbour's old state is at hand although this one's changes.
    bool next_masked = false;
    for (std::int32_t p = last[s]; p-- > first[s];) {
      const bool masked = at[p] == params.masked, decoded = at[p] == params.decoded;
      const bool computed =
          whole[s] != 0 || masked || (params.delay && decoded) || (params.shifted && next_masked);
      flag[p] = computed ? 1 : 0;
      if (decoded) at[p] = params.cached;
      next_masked = masked;
    }
  }
}

}  // namespace unmask::cpu
