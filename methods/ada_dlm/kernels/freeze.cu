// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Decisions that look back over several steps (freeze.cpp of the reference): the confidence
// history, Ada-DLM's two centroids, and the states of a cache that stores a decided token one
// forward late.
#include "kernels/backend.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/ada_dlm/kernels/freeze.h"

namespace unmask::cuda::UNMASK_TARGET {

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
    float* row =
        p.history + s * p.stride + static_cast<std::int64_t>(p.candidates.position[c]) * p.depth;
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

// The candidates of one sequence, and what of them is ranked.
struct freeze_scope {
  const freeze_kernel_params& p;
  int sequence, first, candidates;
  int low, high;  // positions of the scope

  UNMASK_DEVICE explicit freeze_scope(const freeze_kernel_params& given)
      : p(given),
        sequence(static_cast<int>(block_index())),
        first(p.candidates.begin[sequence]),
        candidates(p.candidates.begin[sequence + 1] - first),
        low(p.rule.first != nullptr ? p.rule.first[sequence] : 0),
        high(p.rule.last != nullptr ? p.rule.last[sequence] : 0x7FFFFFFF) {}
  UNMASK_DEVICE int position(int i) const { return p.candidates.position[first + i]; }
  UNMASK_DEVICE const float* row(int at) const {
    return p.history + sequence * p.stride + static_cast<std::int64_t>(at) * p.depth;
  }
  UNMASK_DEVICE static std::uint32_t eligible(float newest) {
    const std::uint32_t key = order_key(newest);
    return key > lowest_key ? key : 0U;
  }
  // Keys of the candidates in scope; 0: not active.
  UNMASK_DEVICE std::uint32_t active(int i) const {
    const int at = position(i);
    return at >= low && at < high ? eligible(row(at)[0]) : 0U;
  }
  // What is ranked: the active candidates, or every position of the scope.
  UNMASK_DEVICE int places() const { return p.rule.rank_all ? high - low : candidates; }
  UNMASK_DEVICE int place(int i) const { return p.rule.rank_all ? low + i : position(i); }
  UNMASK_DEVICE std::uint32_t ranked(int i) const {
    return p.rule.rank_all ? eligible(row(low + i)[0]) : active(i);
  }
};

// Centroids as means of k ranks, from the best and from `boundary` on, of `count`. Means are summed in
// the order of the ranks, as the definition does.
UNMASK_DEVICE void find_tier_means(const block_group& group, const freeze_scope& scope, int k,
                                   int boundary, int count, const centroids& c) {
  const int places = scope.places(), m = scope.p.depth;
  std::int32_t* order = scope.p.order + static_cast<std::int64_t>(scope.sequence) * scope.p.length;
  for (int i = group.rank(); i < places; i += group.size()) {
    const std::uint32_t mine = scope.ranked(i);
    if (mine == 0) continue;
    int rank = 0;
    for (int j = 0; j < places; ++j) {
      const std::uint32_t other = scope.ranked(j);
      rank += other > mine || (other == mine && j < i) ? 1 : 0;
    }
    order[rank] = scope.place(i);
  }
  group.sync();
  for (int i = group.rank(); i < 2 * m; i += group.size()) {
    const int d = i % m;
    const int from = i < m ? 0 : boundary;
    const int to = from + k < count ? from + k : count;
    double sum = 0;
    for (int r = from; r < to; ++r) sum += static_cast<double>(scope.row(order[r])[d]);
    (i < m ? c.high : c.boundary)[d] = sum / (to - from);
  }
}

// Centroids as the histories of the best and of the one at rank `boundary`.
UNMASK_DEVICE void find_single_ranks(const block_group& group, const freeze_scope& scope,
                                     int boundary, const centroids& c) {
  const auto ranked = [&](int i) { return scope.ranked(i); };
  const int best = nth_index(group, scope.places(), 0, ranked);
  const int next = nth_index(group, scope.places(), boundary, ranked);
  for (int d = group.rank(); d < scope.p.depth; d += group.size()) {
    c.high[d] = static_cast<double>(scope.row(scope.place(best))[d]);
    c.boundary[d] = static_cast<double>(scope.row(scope.place(next))[d]);
  }
}

// The centroids become the traces of their ranks, which the newest confidences have entered.
UNMASK_DEVICE void follow_traces(const block_group& group, const freeze_scope& scope,
                                 const centroids& c) {
  const int m = scope.p.depth;
  float* trace = scope.p.rule.trace + static_cast<std::int64_t>(scope.sequence) * 2 * m;
  for (int d = group.rank(); d < m; d += group.size()) {
    if (d == 0) continue;
    c.high[d] = static_cast<double>(trace[d - 1]);
    c.boundary[d] = static_cast<double>(trace[m + d - 1]);
  }
  group.sync();
  for (int d = group.rank(); d < m; d += group.size()) {
    trace[d] = static_cast<float>(c.high[d]);
    trace[m + d] = static_cast<float>(c.boundary[d]);
  }
}

// Whether at most K active candidates all freeze: rules that know no K are not told.
UNMASK_DEVICE bool freezes_all(const freeze_params& rule, int actives, int wanted) {
  const bool ranks = rule.rule != freeze_rule::threshold &&
                     (rule.rule != freeze_rule::moving_average || !(rule.threshold > 0));
  return rule.all_when_short && ranks && actives <= wanted;
}

// Accepts what lies on the side of the high centroid, or all.
UNMASK_DEVICE void accept_high(const block_group& group, const freeze_scope& scope,
                               const centroids& c, bool all, std::uint8_t* accept) {
  const freeze_kernel_params& p = scope.p;
  for (int i = group.rank(); i < scope.candidates; i += group.size()) {
    const float* v = scope.row(scope.position(i));
    const bool settled = scope.active(i) != 0 &&
                         !(static_cast<double>(v[0]) < static_cast<double>(p.rule.floor)) &&
                         (all || closer_to_high(v, c, p.depth, p.rule));
    accept[i] = settled ? 1 : 0;
  }
}

// Applies the limit and always_best. The flags are read by the threads that wrote them.
UNMASK_DEVICE void limit_accepted(const block_group& group, const freeze_scope& scope,
                                  std::uint8_t* accept) {
  const freeze_params& rule = scope.p.rule;
  const int n = scope.candidates;
  const auto frozen = [&](int i) { return accept[i] != 0 ? scope.active(i) : 0U; };
  int total = group.count(n, [&](int i) { return accept[i] != 0; });
  if (rule.limit != nullptr && total > rule.limit[scope.sequence]) {
    total = rule.limit[scope.sequence] > 0 ? rule.limit[scope.sequence] : 0;
    const cut few = top_cut(group, n, total, frozen);
    for_each_taken(group, n, frozen, few, [&](int i, bool taken) { accept[i] = taken ? 1 : 0; });
  }
  if (total == 0 && rule.always_best) {
    const int best = nth_index(group, n, 0, [&](int i) { return scope.active(i); });
    if (group.rank() == 0) accept[best] = 1;
  }
}

// One block for each sequence: rank the scope, find the centroids, compare, then apply the limit
// and always_best.
UNMASK_KERNEL void accept_two_centroids_kernel(freeze_kernel_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const centroids c{shared.take<double>(p.depth), shared.take<double>(p.depth)};
  const freeze_scope scope(p);
  const int n = scope.candidates, wanted = p.rank[scope.sequence];
  std::uint8_t* accept = p.accept + scope.first;
  const int actives = group.count(n, [&](int i) { return scope.active(i) != 0; });
  if (wanted < 0 || actives == 0) {
    for (int i = group.rank(); i < n; i += group.size()) accept[i] = scope.active(i) != 0 ? 1 : 0;
    return;
  }
  const int count = group.count(scope.places(), [&](int i) { return scope.ranked(i) != 0; });
  const int most = count - 1 > 1 ? count - 1 : 1;
  const int k = wanted < 1 ? 1 : wanted > most ? most : wanted;
  const bool all = freezes_all(p.rule, actives, wanted);
  if (all || count > 1 || p.rule.rule == freeze_rule::threshold || p.rule.threshold > 0) {
    const int boundary = k < count - 1 ? k : count - 1;
    if (p.rule.tier_mean) {
      find_tier_means(group, scope, k, boundary, count, c);
    } else {
      find_single_ranks(group, scope, boundary, c);
    }
    group.sync();
    if (p.rule.trace != nullptr && count > 1) follow_traces(group, scope, c);
    group.sync();
    accept_high(group, scope, c, all, accept);
  } else {
    for (int i = group.rank(); i < n; i += group.size()) accept[i] = 0;
  }
  limit_accepted(group, scope, accept);
}

namespace {

void push_history(const device_backend& device, const op::push_history& args) {
  device.work().launch("push_history", {blocks_for(args.candidates.sequences, 1), group_threads},
                       push_history_kernel,
                       {device.in(args.candidates), device.in(args.score), args.replicate,
                        device.out(args.history).as<float>(), args.history.row_stride,
                        static_cast<std::int32_t>(args.history.shape[2])});
}

void accept_two_centroids(const device_backend& device, const op::accept_two_centroids& args) {
  const auto depth = static_cast<std::int32_t>(args.history.shape[2]);
  const auto length = static_cast<std::int32_t>(args.history.shape[1]);
  std::int32_t* order =
      args.params.tier_mean
          ? device.work().scratch<std::int32_t>(scratch_slot::selection_a,
                                                std::int64_t{args.candidates.sequences} * length)
          : nullptr;
  freeze_params rule = args.params;
  rule.first = device.in(rule.first);
  rule.last = device.in(rule.last);
  rule.limit = device.in(rule.limit);
  rule.trace = device.out(rule.trace);
  const std::size_t centroid = (static_cast<std::size_t>(depth) + 1) / 2 * 16;
  device.work().launch(
      "accept_two_centroids",
      {blocks_for(args.candidates.sequences, 1), group_threads, group_bytes + 2 * centroid},
      accept_two_centroids_kernel,
      {device.in(args.candidates), device.in(args.history).as<float>(), args.history.row_stride,
       depth, length, device.in(args.rank), rule, device.out(args.accept), order});
}

void advance_delayed_cache(const device_backend& device, const op::advance_delayed_cache& args) {
  device.on_host(args, args.state.data, args.first, args.last, args.whole, args.flags.data);
}

}  // namespace

const register_operations<push_history, accept_two_centroids, advance_delayed_cache> registered(
    this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
