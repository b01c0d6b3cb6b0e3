// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which candidates are committed (decisions.cpp and freeze.cpp of the reference). One block for
// each sequence; a sequence of at most 64 candidates is decided by its first warp, with the scores
// in registers and the flags in ballots. A candidate whose score is -infinity or NaN is not
// eligible.
#pragma once

#include "kernels/cuda/groups.h"
#include "kernels/ops.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int decide_threads = 256;
constexpr std::size_t group_bytes = group_words * sizeof(std::uint64_t);

// The `quota` best of n.
template <class G, class K>
UNMASK_DEVICE void take_top(const G& group, int n, const K& key, int quota, std::uint8_t* accept) {
  const int eligible = group.count(n, [&](int i) { return key(i) > lowest_key; });
  const cut c = top_cut(group, n, quota < eligible ? quota : eligible, key);
  for_each_taken(group, n, key, c, [&](int i, bool taken) { accept[i] = taken ? 1 : 0; });
}

struct accept_top_params {
  candidate_set candidates;
  const float* score;
  const std::int32_t* quota;
  std::uint8_t* accept;
};

UNMASK_KERNEL void accept_top_kernel(accept_top_params p) {
  shared_allocator shared;
  const auto room = shared.take<std::uint64_t>(group_words);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  with_keys(p.score + first, n, room, [&](const auto& group, const auto& key) {
    take_top(group, n, key, p.quota[s], p.accept + first);
  });
}

struct accept_threshold_params {
  candidate_set candidates;
  const float* score;
  float threshold;
  bool strict, always_best;
  std::uint8_t* accept;
};

UNMASK_KERNEL void accept_threshold_kernel(accept_threshold_params p) {
  shared_allocator shared;
  const auto room = shared.take<std::uint64_t>(group_words);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const float* score = p.score + first;
  with_keys(score, n, room, [&](const auto& group, const auto& key) {
    std::uint64_t best = 0;
    for (int i = group.rank(); p.always_best && i < n; i += group.size()) {
      const std::uint64_t mine = order_value(key(i), i);
      if (key(i) > lowest_key && mine > best) best = mine;
    }
    if (p.always_best) best = group_max(group, best);
    for (int i = group.rank(); i < n; i += group.size()) {
      const bool passes = p.strict ? score[i] > p.threshold : score[i] >= p.threshold;
      const bool is_best = best != 0 && i == index_of(best);
      p.accept[first + i] = key(i) > lowest_key && (passes || is_best) ? 1 : 0;
    }
  });
}

struct accept_factor_params {
  candidate_set candidates;
  const float* score;
  float factor;
  std::uint8_t* accept;
};

// t = the lowest rank whose score is below that rank's threshold; then the t best. Ranks are
// counted, n comparisons for each candidate.
template <class G, class K>
UNMASK_DEVICE void take_by_factor(const G& group, int n, const K& key, const float* score,
                                  float factor, std::uint8_t* accept) {
  const int m = group.count(n, [&](int i) { return key(i) > lowest_key; });
  int t = m - 1;
  for (int i = group.rank(); i < n; i += group.size()) {
    const std::uint32_t mine = key(i);
    if (mine <= lowest_key) continue;
    int rank = 0;
    for (int j = 0; j < n; ++j) {
      const std::uint32_t other = order_key(score[j]);
      rank += other > mine || (other == mine && j < i) ? 1 : 0;
    }
    const double threshold = rank == 0 ? -1.0 : 1.0 - static_cast<double>(factor) / (rank + 2);
    if (static_cast<double>(score[i]) < threshold && rank < t) t = rank;
  }
  t = group_min(group, t);
  if (t == 0 || t == m - 1) ++t;
  const cut c = top_cut(group, n, m == 0 ? 0 : t, key);
  for_each_taken(group, n, key, c, [&](int i, bool taken) { accept[i] = taken ? 1 : 0; });
}

UNMASK_KERNEL void accept_factor_kernel(accept_factor_params p) {
  shared_allocator shared;
  const auto room = shared.take<std::uint64_t>(group_words);
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  with_keys(p.score + first, n, room, [&](const auto& group, const auto& key) {
    take_by_factor(group, n, key, p.score + first, p.factor, p.accept + first);
  });
}

struct accept_sequential_params {
  candidate_set candidates;
  const std::int32_t* block_begin;
  std::int32_t block;
  const std::int32_t* quota;
  std::uint8_t* accept;
};

// One warp for each sequence.
UNMASK_KERNEL void accept_sequential_kernel(accept_sequential_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], last = p.candidates.begin[s + 1];
  const int low = p.block_begin[s], high = low + p.block;
  int start = 0x7FFFFFFF;
  for (int c = first + group.rank(); c < last; c += group.size()) {
    const int position = p.candidates.position[c];
    if (position >= low && position < high && position < start) start = position;
  }
  start = group_min(group, start);
  for (int c = first + group.rank(); c < last; c += group.size()) {
    const int position = p.candidates.position[c];
    const bool inside = position >= low && position < high;
    // `start` is the lowest: the distance is not negative and below the block.
    p.accept[c] = inside && position - start < p.quota[s] ? 1 : 0;
  }
}

struct merge_accept_params {
  std::int32_t count;
  const std::uint8_t* also;
  bool both;
  std::uint8_t* accept;
};

UNMASK_KERNEL void merge_accept_kernel(merge_accept_params p) {
  const int step = static_cast<int>(grid_size() * block_size());
  for (int i = static_cast<int>(block_index() * block_size() + thread_index()); i < p.count;
       i += step) {
    const std::uint8_t mine = p.accept[i], other = p.also[i];
    p.accept[i] = p.both ? (mine & other) : (mine | other);
  }
}

struct commit_params {
  candidate_set candidates;
  const std::int32_t* token;
  const std::uint8_t* accept;
  std::uint8_t decoded_state;
  std::int32_t mask_id;
  std::int32_t* canvas;
  std::int64_t canvas_stride;
  std::uint8_t* state;
  std::int64_t state_stride;
  std::int32_t* committed;
};

// One warp for each sequence.
UNMASK_KERNEL void commit_kernel(commit_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const int written = group.count(n, [&](int i) {
    const int c = first + i;
    if (p.accept[c] == 0 || p.token[c] == p.mask_id) return false;
    const std::int64_t position = p.candidates.position[c];
    p.canvas[s * p.canvas_stride + position] = p.token[c];
    p.state[s * p.state_stride + position] = p.decoded_state;
    return true;
  });
  if (group.rank() == 0) p.committed[s] += written;
}

// ---- freezing: history [S, length, m], newest first ---------------------------------------------

struct push_history_params {
  candidate_set candidates;
  const float* score;
  bool replicate;
  float* history;
  std::int64_t stride;  // floats of one sequence
  std::int32_t depth;   // m
};

UNMASK_KERNEL void push_history_kernel(push_history_params p) {
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], last = p.candidates.begin[s + 1];
  for (int c = first + static_cast<int>(thread_index()); c < last;
       c += static_cast<int>(block_size())) {
    float* row = p.history + s * p.stride +
                 static_cast<std::int64_t>(p.candidates.position[c]) * p.depth;
    const bool fill = p.replicate && row[0] == 0.0F;
    for (int d = p.depth - 1; d > 0; --d) row[d] = fill ? p.score[c] : row[d - 1];
    row[0] = p.score[c];
  }
}

struct freeze_kernel_params {
  candidate_set candidates;
  const float* history;
  std::int64_t stride;
  std::int32_t depth;
  std::int32_t length;
  const std::int32_t* rank;
  freeze_params rule;
  std::uint8_t* accept;
  std::int32_t* order;  // [S, length] scratch, for tier means only
};

// The two centroids in shared memory, float64 as in the definition.
struct centroids {
  shared_array<double> high, boundary;  // [m]
};

UNMASK_DEVICE double mean_of(shared_array<double> v, int m) {
  double sum = 0;
  for (int d = 0; d < m; ++d) sum += v[d];
  return sum / m;
}
UNMASK_DEVICE double squared_distance(const float* v, shared_array<double> to, int m) {
  double sum = 0;
  for (int d = 0; d < m; ++d) {
    const double difference = static_cast<double>(v[d]) - to[d];
    sum += product(difference, difference);
  }
  return sum;
}
UNMASK_DEVICE double absolute_distance(const float* v, shared_array<double> to, int m) {
  double sum = 0;
  for (int d = 0; d < m; ++d) {
    const double difference = static_cast<double>(v[d]) - to[d];
    sum += difference < 0 ? -difference : difference;
  }
  return sum;
}
UNMASK_DEVICE double cosine(const float* v, shared_array<double> to, int m) {
  double ab = 0, aa = 0, bb = 0;
  for (int d = 0; d < m; ++d) {
    const double mine = v[d];
    ab += product(mine, to[d]);
    aa += product(mine, mine);
    bb += product(to[d], to[d]);
  }
  return aa > 0 && bb > 0 ? ab / product(sqrt(aa), sqrt(bb)) : 0.0;
}

// Is v strictly on the side of the high centroid?
UNMASK_DEVICE bool closer_to_high(const float* v, const centroids& c, int m,
                                         const freeze_params& rule) {
  switch (rule.rule) {
    case freeze_rule::threshold:
      return static_cast<double>(v[0]) > static_cast<double>(rule.threshold);
    case freeze_rule::moving_average: {
      double sum = 0;
      for (int d = 0; d < m; ++d) sum += static_cast<double>(v[d]);
      const double bar = rule.threshold > 0 ? static_cast<double>(rule.threshold)
                                            : (mean_of(c.high, m) + mean_of(c.boundary, m)) / 2;
      return sum / m > bar;
    }
    case freeze_rule::manhattan:
      return absolute_distance(v, c.high, m) < absolute_distance(v, c.boundary, m);
    case freeze_rule::cosine:
      return cosine(v, c.high, m) > cosine(v, c.boundary, m) + cosine_tie;
    case freeze_rule::squared_euclidean:
      break;
  }
  if (!rule.clamp_weights) {
    return squared_distance(v, c.high, m) < squared_distance(v, c.boundary, m);
  }
  double side = 0;
  for (int d = 0; d < m; ++d) {
    const double weight = c.high[d] - c.boundary[d];
    const double middle = (c.high[d] + c.boundary[d]) / 2;
    side += product(weight > 0 ? weight : 0.0, static_cast<double>(v[d]) - middle);
  }
  return side > 0;
}

// One block for each sequence: rank the scope, find the centroids, compare, then apply the limit
// and always_best.
UNMASK_KERNEL void freeze_two_centroids_kernel(freeze_kernel_params p) {
  shared_allocator shared;
  const block_group group{shared.take<std::uint64_t>(group_words)};
  const centroids c{shared.take<double>(p.depth), shared.take<double>(p.depth)};
  const int s = static_cast<int>(block_index());
  const int m = p.depth;
  const int first = p.candidates.begin[s], n = p.candidates.begin[s + 1] - first;
  const int low = p.rule.first != nullptr ? p.rule.first[s] : 0;
  const int high = p.rule.last != nullptr ? p.rule.last[s] : 0x7FFFFFFF;
  const std::int32_t* position = p.candidates.position + first;
  std::uint8_t* accept = p.accept + first;
  const auto row = [&](int at) {
    return p.history + s * p.stride + static_cast<std::int64_t>(at) * m;
  };
  const auto eligible = [&](float newest) {
    const std::uint32_t key = order_key(newest);
    return key > lowest_key ? key : 0U;
  };
  // Keys of the candidates in scope; 0: not active.
  const auto active = [&](int i) {
    const int at = position[i];
    return at >= low && at < high ? eligible(row(at)[0]) : 0U;
  };
  const int actives = group.count(n, [&](int i) { return active(i) != 0; });
  const int wanted = p.rank[s];
  if (wanted < 0 || actives == 0 || (p.rule.all_when_short && actives <= wanted)) {
    for (int i = group.rank(); i < n; i += group.size()) accept[i] = active(i) != 0 ? 1 : 0;
    return;
  }
  // What is ranked: the active candidates, or every position of the scope.
  const int places = p.rule.rank_all ? high - low : n;
  const auto place = [&](int i) { return p.rule.rank_all ? low + i : position[i]; };
  const auto ranked = [&](int i) {
    return p.rule.rank_all ? eligible(row(low + i)[0]) : active(i);
  };
  const int count = group.count(places, [&](int i) { return ranked(i) != 0; });
  const int most = count - 1 > 1 ? count - 1 : 1;
  const int k = wanted < 1 ? 1 : wanted > most ? most : wanted;

  if (count > 1 || p.rule.rule == freeze_rule::threshold || p.rule.threshold > 0) {
    const int boundary = k < count - 1 ? k : count - 1;
    if (p.rule.tier_mean) {
      // Means are summed in the order of the ranks, as the definition does.
      std::int32_t* order = p.order + static_cast<std::int64_t>(s) * p.length;
      for (int i = group.rank(); i < places; i += group.size()) {
        const std::uint32_t mine = ranked(i);
        if (mine == 0) continue;
        int rank = 0;
        for (int j = 0; j < places; ++j) {
          const std::uint32_t other = ranked(j);
          rank += other > mine || (other == mine && j < i) ? 1 : 0;
        }
        order[rank] = place(i);
      }
      group.sync();
      for (int i = group.rank(); i < 2 * m; i += group.size()) {
        const int d = i % m;
        const int from = i < m ? 0 : boundary;
        const int to = from + k < count ? from + k : count;
        double sum = 0;
        for (int r = from; r < to; ++r) sum += static_cast<double>(row(order[r])[d]);
        (i < m ? c.high : c.boundary)[d] = sum / (to - from);
      }
    } else {
      const int best = nth_index(group, places, 0, ranked);
      const int next = nth_index(group, places, boundary, ranked);
      for (int d = group.rank(); d < m; d += group.size()) {
        c.high[d] = static_cast<double>(row(place(best))[d]);
        c.boundary[d] = static_cast<double>(row(place(next))[d]);
      }
    }
    group.sync();
    for (int i = group.rank(); i < n; i += group.size()) {
      const float* v = row(position[i]);
      const bool settled = active(i) != 0 &&
                           !(static_cast<double>(v[0]) < static_cast<double>(p.rule.floor)) &&
                           closer_to_high(v, c, m, p.rule);
      accept[i] = settled ? 1 : 0;
    }
  } else {
    for (int i = group.rank(); i < n; i += group.size()) accept[i] = 0;
  }

  // The flags are read by the threads that wrote them.
  const auto frozen = [&](int i) { return accept[i] != 0 ? active(i) : 0U; };
  int total = group.count(n, [&](int i) { return accept[i] != 0; });
  if (p.rule.limit != nullptr && total > p.rule.limit[s]) {
    total = p.rule.limit[s] > 0 ? p.rule.limit[s] : 0;
    const cut few = top_cut(group, n, total, frozen);
    for_each_taken(group, n, frozen, few, [&](int i, bool taken) { accept[i] = taken ? 1 : 0; });
  }
  if (total == 0 && p.rule.always_best) {
    const int best = nth_index(group, n, 0, active);
    if (group.rank() == 0) accept[best] = 1;
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
