// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's decision: confidence history, ranking, two centroids, one comparison of distances.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/ops.h"

namespace unmask::reference {

namespace {

using profile = std::vector<double>;  // the last m confidences of one position, newest first

struct ranked_position {
  std::int32_t position;
  float confidence;
};

profile row_of(const tensor_view& history, std::int32_t s, std::int32_t position) {
  const std::int64_t m = history.shape[2];
  const float* at = history.row<float>(s) + position * m;
  return {at, at + m};
}

profile mean_of(const tensor_view& history, std::int32_t s,
                const std::vector<ranked_position>& order, std::int32_t first, std::int32_t last) {
  profile mean(static_cast<std::size_t>(history.shape[2]), 0.0);
  for (std::int32_t i = first; i < last; ++i) {
    const profile row = row_of(history, s, order[static_cast<std::size_t>(i)].position);
    for (std::size_t d = 0; d < mean.size(); ++d) mean[d] += row[d];
  }
  for (double& d : mean) d /= last - first;
  return mean;
}

double average(const profile& v) {
  double sum = 0;
  for (const double d : v) sum += d;
  return sum / static_cast<double>(v.size());
}

double squared_distance(const profile& a, const profile& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += (a[d] - b[d]) * (a[d] - b[d]);
  return sum;
}

double absolute_distance(const profile& a, const profile& b) {
  double sum = 0;
  for (std::size_t d = 0; d < a.size(); ++d) sum += std::fabs(a[d] - b[d]);
  return sum;
}

double cosine(const profile& a, const profile& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t d = 0; d < a.size(); ++d) {
    ab += a[d] * b[d];
    aa += a[d] * a[d];
    bb += b[d] * b[d];
  }
  return aa > 0 && bb > 0 ? ab / (std::sqrt(aa) * std::sqrt(bb)) : 0.0;
}

// Is v strictly on high's side?
bool closer_to_high(const profile& v, const profile& high, const profile& boundary,
                    const freeze_params& params) {
  switch (params.rule) {
    case freeze_rule::threshold:
      return v[0] > double{params.threshold};
    case freeze_rule::moving_average:
      return average(v) > (params.threshold > 0 ? double{params.threshold}
                                                : (average(high) + average(boundary)) / 2);
    case freeze_rule::manhattan:
      return absolute_distance(v, high) < absolute_distance(v, boundary);
    case freeze_rule::cosine:
      return cosine(v, high) > cosine(v, boundary) + cosine_tie;
    case freeze_rule::squared_euclidean:
      break;
  }
  if (!params.clamp_weights) return squared_distance(v, high) < squared_distance(v, boundary);
  // w = max(high - boundary, 0); w . v > w . (high + boundary) / 2.
  double side = 0;
  for (std::size_t d = 0; d < v.size(); ++d) {
    side += std::max(high[d] - boundary[d], 0.0) * (v[d] - (high[d] + boundary[d]) / 2);
  }
  return side > 0;
}

}  // namespace

// history[s, p] = (score, history[s, p, 0], ..., history[s, p, m - 2]).
void backend::push_history(const candidate_set& candidates, const float* score, bool replicate,
                           const tensor_view& history) const {
  const std::int64_t m = history.shape[2];
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      float* row = history.row<float>(s) + candidates.position[c] * m;
      if (replicate && row[0] == 0.0F) {
        std::fill(row, row + m, score[c]);
        continue;
      }
      for (std::int64_t d = m - 1; d > 0; --d) row[d] = row[d - 1];
      row[0] = score[c];
    }
  }
}

// Eqs. 6-10 and Algorithm 1 of Ada-DLM, per sequence.
void backend::freeze_two_centroids(const candidate_set& candidates, const tensor_view& history,
                                   const std::int32_t* rank, const freeze_params& params,
                                   std::uint8_t* accept) const {
  std::fill(accept, accept + candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < candidates.sequences; ++s) {
    const std::int32_t low = params.first ? params.first[s] : 0;
    const std::int32_t high_end =
        params.last ? params.last[s] : std::numeric_limits<std::int32_t>::max();
    std::vector<ranked_position> order;
    std::vector<std::int32_t> active;  // candidates inside the scope
    for (std::int32_t c = candidates.begin[s]; c < candidates.begin[s + 1]; ++c) {
      const std::int32_t p = candidates.position[c];
      const double newest = row_of(history, s, p)[0];
      if (p < low || p >= high_end || !(newest > -std::numeric_limits<double>::infinity()))
        continue;
      active.push_back(c);
      if (!params.rank_all) order.push_back({p, static_cast<float>(newest)});
    }
    if (active.empty()) continue;
    if (rank[s] < 0) {
      for (const std::int32_t c : active) accept[c] = 1;
      continue;
    }
    if (params.rank_all) {
      for (std::int32_t p = low; p < high_end; ++p) {
        const double newest = row_of(history, s, p)[0];
        if (newest > -std::numeric_limits<double>::infinity())
          order.push_back({p, static_cast<float>(newest)});
      }
    }
    const auto by_confidence = [](const ranked_position& a, const ranked_position& b) {
      return a.confidence > b.confidence;
    };
    std::stable_sort(order.begin(), order.end(), by_confidence);
    const auto n = static_cast<std::int32_t>(order.size());
    const std::int32_t k = std::clamp(rank[s], 1, std::max(n - 1, 1));
    if (params.all_when_short && static_cast<std::int32_t>(active.size()) <= rank[s]) {
      for (const std::int32_t c : active) accept[c] = 1;
      continue;
    }
    if (n > 1 || params.rule == freeze_rule::threshold || params.threshold > 0) {
      const std::int32_t tier = params.tier_mean ? k : 1;
      const std::int32_t boundary_first = std::min(k, n - 1);
      const profile high = mean_of(history, s, order, 0, std::min(tier, n));
      const profile boundary =
          mean_of(history, s, order, boundary_first, std::min(boundary_first + tier, n));
      for (const std::int32_t c : active) {
        const profile v = row_of(history, s, candidates.position[c]);
        if (v[0] < double{params.floor} || !closer_to_high(v, high, boundary, params)) continue;
        accept[c] = 1;
      }
    }
    std::stable_sort(active.begin(), active.end(), [&](std::int32_t a, std::int32_t b) {
      return row_of(history, s, candidates.position[a])[0] >
             row_of(history, s, candidates.position[b])[0];
    });
    std::int32_t frozen = 0;
    for (const std::int32_t c : active) {
      if (accept[c] != 0 && params.limit && frozen >= params.limit[s]) accept[c] = 0;
      frozen += accept[c];
    }
    if (frozen == 0 && params.always_best) accept[active.front()] = 1;
  }
}

void backend::mark_unsettled(const tensor_view& state, const settle_params& params,
                             const std::int32_t* first, const std::int32_t* last,
                             const std::uint8_t* whole, const tensor_view& flags) const {
  for (std::int64_t s = 0; s < state.rows(); ++s) {
    std::uint8_t* at = state.row<std::uint8_t>(s);
    std::uint8_t* flag = flags.row<std::uint8_t>(s);
    for (std::int32_t p = first[s]; p < last[s]; ++p) {
      const bool predicts = params.shifted && p + 1 < last[s] && at[p + 1] == params.masked;
      const bool delayed = params.delay && at[p] == params.decoded;
      flag[p] = whole[s] != 0 || at[p] == params.masked || delayed || predicts ? 1 : 0;
    }
    for (std::int32_t p = first[s]; p < last[s]; ++p) {
      if (at[p] == params.decoded) at[p] = params.cached;
    }
  }
}

}  // namespace unmask::reference
