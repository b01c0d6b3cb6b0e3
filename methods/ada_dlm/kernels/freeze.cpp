// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's decision without a sort: two selections on 64-bit keys, then one pass. With squared
// distances |v - h|^2 < |v - b|^2 is linear in v: (h - b) . (2 v - h - b) > 0.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/scratch.h"
#include "kernels/reference/backend.h"
#include "methods/ada_dlm/kernels/freeze.h"

namespace unmask {
namespace reference {
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

// (newest, trace[0], ..., trace[m - 2]), which the trace becomes.
profile advanced(float* trace, std::int64_t m, float newest) {
  std::copy_backward(trace, trace + m - 1, trace + m);
  trace[0] = newest;
  return {trace, trace + m};
}

// Rules that know no K are not told that few are left.
bool counts_ranks(const freeze_params& params) {
  return params.rule != freeze_rule::threshold &&
         (params.rule != freeze_rule::moving_average || !(params.threshold > 0));
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

// history[s, p] = (score, history[s, p, 0], ..., history[s, p, m - 2]).
void push_history(const op::push_history& args) {
  const std::int64_t m = args.history.shape[2];
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      float* row = args.history.row<float>(s) + args.candidates.position[c] * m;
      if (args.replicate && row[0] == 0.0F) {
        std::fill(row, row + m, args.score[c]);
        continue;
      }
      for (std::int64_t d = m - 1; d > 0; --d) row[d] = row[d - 1];
      row[0] = args.score[c];
    }
  }
}

// Eqs. 6-10 and Algorithm 1 of Ada-DLM, per sequence.
void accept_two_centroids(const op::accept_two_centroids& args) {
  std::fill(args.accept, args.accept + args.candidates.count, std::uint8_t{0});
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const std::int32_t low = args.params.first ? args.params.first[s] : 0;
    const std::int32_t high_end =
        args.params.last ? args.params.last[s] : std::numeric_limits<std::int32_t>::max();
    std::vector<ranked_position> order;
    std::vector<std::int32_t> active;  // candidates inside the scope
    for (std::int32_t c = args.candidates.begin[s]; c < args.candidates.begin[s + 1]; ++c) {
      const std::int32_t p = args.candidates.position[c];
      const double newest = row_of(args.history, s, p)[0];
      if (p < low || p >= high_end || !(newest > -std::numeric_limits<double>::infinity()))
        continue;
      active.push_back(c);
      if (!args.params.rank_all) order.push_back({p, static_cast<float>(newest)});
    }
    if (active.empty()) continue;
    if (args.rank[s] < 0) {
      for (const std::int32_t c : active) args.accept[c] = 1;
      continue;
    }
    if (args.params.rank_all) {
      for (std::int32_t p = low; p < high_end; ++p) {
        const double newest = row_of(args.history, s, p)[0];
        if (newest > -std::numeric_limits<double>::infinity())
          order.push_back({p, static_cast<float>(newest)});
      }
    }
    const auto by_confidence = [](const ranked_position& a, const ranked_position& b) {
      return a.confidence > b.confidence;
    };
    std::stable_sort(order.begin(), order.end(), by_confidence);
    const auto n = static_cast<std::int32_t>(order.size());
    const std::int32_t k = std::clamp(args.rank[s], 1, std::max(n - 1, 1));
    const bool all = args.params.all_when_short && counts_ranks(args.params) &&
                     static_cast<std::int32_t>(active.size()) <= args.rank[s];
    profile high, boundary;
    const bool judged =
        n > 1 || args.params.rule == freeze_rule::threshold || args.params.threshold > 0;
    if (judged) {
      const std::int32_t tier = args.params.tier_mean ? k : 1;
      const std::int32_t boundary_first = std::min(k, n - 1);
      high = mean_of(args.history, s, order, 0, std::min(tier, n));
      boundary =
          mean_of(args.history, s, order, boundary_first, std::min(boundary_first + tier, n));
    }
    if (args.params.trace != nullptr && n > 1) {
      const std::int64_t m = args.history.shape[2];
      float* trace = args.params.trace + s * 2 * m;
      high = advanced(trace, m, static_cast<float>(high[0]));
      boundary = advanced(trace + m, m, static_cast<float>(boundary[0]));
    }
    for (const std::int32_t c : active) {
      const profile v = row_of(args.history, s, args.candidates.position[c]);
      if (v[0] < double{args.params.floor}) continue;
      if (all || (judged && closer_to_high(v, high, boundary, args.params))) args.accept[c] = 1;
    }
    std::stable_sort(active.begin(), active.end(), [&](std::int32_t a, std::int32_t b) {
      return row_of(args.history, s, args.candidates.position[a])[0] >
             row_of(args.history, s, args.candidates.position[b])[0];
    });
    std::int32_t frozen = 0;
    for (const std::int32_t c : active) {
      if (args.accept[c] != 0 && args.params.limit && frozen >= args.params.limit[s])
        args.accept[c] = 0;
      frozen += args.accept[c];
    }
    if (frozen == 0 && args.params.always_best) args.accept[active.front()] = 1;
  }
}

void advance_delayed_cache(const op::advance_delayed_cache& args) {
  for (std::int64_t s = 0; s < args.state.rows(); ++s) {
    std::uint8_t* at = args.state.row<std::uint8_t>(s);
    std::uint8_t* flag = args.flags.row<std::uint8_t>(s);
    for (std::int32_t p = args.first[s]; p < args.last[s]; ++p) {
      const bool predicts =
          args.params.shifted && p + 1 < args.last[s] && at[p + 1] == args.params.masked;
      const bool delayed = args.params.delay && at[p] == args.params.decoded;
      flag[p] = args.whole[s] != 0 || at[p] == args.params.masked || delayed || predicts ? 1 : 0;
    }
    for (std::int32_t p = args.first[s]; p < args.last[s]; ++p) {
      if (at[p] == args.params.decoded) at[p] = args.params.cached;
    }
  }
}

}  // namespace

const register_operations<push_history, accept_two_centroids, advance_delayed_cache> registered(
    target::reference);

}  // namespace reference

namespace cpu {
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

// Rules that know no K are not told that few are left.
bool counts_ranks(const freeze_params& params) {
  if (params.rule == freeze_rule::moving_average) return !(params.threshold > 0);
  return params.rule != freeze_rule::threshold;
}

// Of the accepted candidates with these keys at most `limit` stay, the most confident; how many there are.
std::int32_t keep_best(std::uint64_t* key, std::int32_t frozen, std::int32_t limit,
                       std::uint8_t* accept) {
  if (frozen <= limit) return frozen;
  std::nth_element(key, key + limit, key + frozen);
  for (std::int32_t i = limit; i < frozen; ++i) accept[static_cast<std::uint32_t>(key[i])] = 0;
  return limit;
}

// The trace with the newest confidence in front, as the centroid too.
void advance(float* trace, double* centroid, std::int64_t m) {
  std::copy_backward(trace, trace + m - 1, trace + m);
  trace[0] = static_cast<float>(centroid[0]);
  std::copy(trace, trace + m, centroid);
}

void accept_two_centroids(const op::accept_two_centroids& args) {
  const std::int64_t m = args.history.shape[2];
  thread_local scratch key_memory, centroid_memory;
  double* const means = centroid_memory.get<double>(2 * m);
  for (std::int32_t s = 0; s < args.candidates.sequences; ++s) {
    const float* rows = args.history.row<float>(s);
    const std::int32_t first = args.params.first ? args.params.first[s] : 0;
    const std::int32_t last =
        args.params.last ? args.params.last[s] : std::numeric_limits<std::int32_t>::max();
    const std::int32_t begin = args.candidates.begin[s], end = args.candidates.begin[s + 1];
    std::fill(args.accept + begin, args.accept + end, std::uint8_t{0});
    const auto in_play = [&](std::int32_t c) {
      const std::int32_t p = args.candidates.position[c];
      return p >= first && p < last && eligible(rows[p * m]);
    };

    // Keys of what is ranked, and the best candidate (lowest position on ties).
    auto* key = key_memory.get<std::uint64_t>(
        std::int64_t{std::max(args.params.rank_all ? last - first : 0, end - begin)} + 1);
    std::int32_t n = 0, active = 0, best = -1;
    for (std::int32_t c = begin; c < end; ++c) {
      if (!in_play(c)) continue;
      ++active;
      const std::int32_t p = args.candidates.position[c];
      if (best < 0 || rows[p * m] > rows[args.candidates.position[best] * m]) best = c;
      if (!args.params.rank_all) key[n++] = rank_key(rows[p * m], static_cast<std::uint32_t>(p));
    }
    if (active == 0) continue;
    if (args.rank[s] < 0) {
      for (std::int32_t c = begin; c < end; ++c) args.accept[c] = in_play(c) ? 1 : 0;
      continue;
    }
    const bool all =
        args.params.all_when_short && counts_ranks(args.params) && active <= args.rank[s];
    if (args.params.rank_all) {
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
    const std::int32_t k = std::clamp(args.rank[s], 1, std::max(n - 1, 1));
    const std::int32_t boundary = std::min(k, n - 1), tier = args.params.tier_mean ? k : 1;
    std::nth_element(key, key + boundary, key + n);
    if (tier == 1) {
      if (boundary > 0) std::iter_swap(key, std::min_element(key, key + boundary));
    } else if (boundary + tier < n) {
      std::nth_element(key + boundary + 1, key + boundary + tier, key + n);
    }
    mean_of_keys(0, std::min(tier, n), means);
    mean_of_keys(boundary, std::min(boundary + tier, n), means + m);
    if (args.params.trace != nullptr && n > 1) {
      float* trace = args.params.trace + s * 2 * m;
      advance(trace, means, m);
      advance(trace + m, means + m, m);
    }

    const centroids c2{means, means + m, m};
    std::int32_t frozen = 0;
    for (std::int32_t c = begin; c < end; ++c) {
      if (!in_play(c)) continue;
      const float* v = rows + args.candidates.position[c] * m;
      if (!(v[0] >= args.params.floor) || !(all || closer_to_high(v, c2, args.params))) continue;
      args.accept[c] = 1;
      key[frozen++] = rank_key(v[0], static_cast<std::uint32_t>(c));
    }
    const std::int32_t limit = args.params.limit ? std::max(args.params.limit[s], 0) : frozen;
    frozen = keep_best(key, frozen, limit, args.accept);
    if (frozen == 0 && args.params.always_best) args.accept[best] = 1;
  }
}

}  // namespace

const register_operations<accept_two_centroids> registered(target::cpu);

}  // namespace cpu
}  // namespace unmask
