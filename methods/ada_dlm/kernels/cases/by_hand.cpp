// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's decision: cases by hand, and what is proven about it.
#include <algorithm>
#include <numeric>

#include "methods/ada_dlm/kernels/freeze.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using accepts = std::vector<std::uint8_t>;
const std::vector<const backend*> backends = unmask::test::host_backends();

// Histories of a ragged batch; every position of `rows[s]` is a candidate unless left out.
struct scene {
  std::int64_t length = 0, m = 0;
  std::vector<float> history;
  test::candidates_fixture candidates;
  std::vector<std::int32_t> rank;

  // rows[s][p]: history of position p, newest first.
  scene(const std::vector<std::vector<std::vector<float>>>& rows, std::int32_t k,
        const std::vector<std::vector<std::int32_t>>& active = {}) {
    for (const auto& sequence : rows) {
      length = std::max(length, static_cast<std::int64_t>(sequence.size()));
      if (!sequence.empty()) m = static_cast<std::int64_t>(sequence[0].size());
    }
    history.assign(rows.size() * static_cast<std::size_t>(length * m), 0.0F);
    for (std::size_t s = 0; s < rows.size(); ++s) {
      std::vector<std::int32_t> all(rows[s].size());
      std::iota(all.begin(), all.end(), 0);
      candidates.add(active.empty() ? all : active[s]);
      for (std::size_t p = 0; p < rows[s].size(); ++p) {
        std::copy(rows[s][p].begin(), rows[s][p].end(),
                  history.begin() +
                      (static_cast<std::int64_t>(s) * length + static_cast<std::int64_t>(p)) * m);
      }
      rank.push_back(k);
    }
  }
  tensor_view view() {
    return make_view(history.data(), dtype::f32,
                     {static_cast<std::int64_t>(rank.size()), length, m});
  }
  accepts decide(const backend& backend, const freeze_params& params) {
    accepts a(candidates.row.size(), 9);  // poisoned
    backend.run(op::accept_two_centroids{candidates.set(), view(), rank.data(), params, a.data()});
    return a;
  }
  std::vector<float> row(std::int32_t s, std::int32_t p) {
    const float* at = view().row<float>(s) + p * m;
    return {at, at + m};
  }
};

// One sequence with m = 1.
scene newest(const std::vector<float>& confidence, std::int32_t k) {
  std::vector<std::vector<float>> rows;
  for (const float c : confidence) rows.push_back({c});
  return scene({rows}, k);
}

scene random_scene(std::mt19937& rng, bool quantised) {
  std::uniform_int_distribution<int> size(0, 24), depth(1, 5), rank(1, 12), level(1, 16);
  std::uniform_real_distribution<float> real(0.01F, 1.0F);
  const int m = depth(rng);
  std::vector<std::vector<std::vector<float>>> rows(3);
  std::vector<std::vector<std::int32_t>> active(3);
  for (std::size_t s = 0; s < rows.size(); ++s) {
    rows[s].resize(static_cast<std::size_t>(size(rng)) + (s == 0 ? 1 : 0));
    for (std::size_t p = 0; p < rows[s].size(); ++p) {
      for (int d = 0; d < m; ++d) {
        rows[s][p].push_back(quantised ? static_cast<float>(level(rng)) / 16.0F : real(rng));
      }
      if (level(rng) > 3) active[s].push_back(static_cast<std::int32_t>(p));
    }
  }
  return scene(rows, rank(rng), active);
}

// Rank-1 and rank-(K+1) rows of sequence s among its candidates, by a plain sort.
std::pair<std::vector<float>, std::vector<float>> prototypes(scene& x, std::int32_t s) {
  std::vector<std::int32_t> order(x.candidates.position.begin() + x.candidates.begin[s],
                                  x.candidates.position.begin() + x.candidates.begin[s + 1]);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return x.row(s, a)[0] > x.row(s, b)[0]; });
  const auto n = static_cast<std::int32_t>(order.size());
  return {x.row(s, order[0]),
          x.row(s, order[static_cast<std::size_t>(std::min(x.rank[s], n - 1))])};
}

TEST(freeze, by_hand) {
  for (const backend* backend : backends) {
    SCOPED_TRACE(backend->name());
    // K = 2: high 0.9, boundary 0.5 (rank 3), middle 0.7: only 0.9 and 0.8 are above it.
    scene s = newest({0.5F, 0.9F, 0.3F, 0.8F}, 2);
    EXPECT_EQ(s.decide(*backend, {}), (accepts{0, 1, 0, 1}));
    // At most K active: the boundary is the last of them.
    scene few = newest({0.6F, 0.2F, 0.5F}, 9);
    EXPECT_EQ(few.decide(*backend, {}), (accepts{1, 0, 1}));
    freeze_params all;
    all.all_when_short = true;
    EXPECT_EQ(few.decide(*backend, all), (accepts{1, 1, 1}));
    // A limit takes the most confident of them, a floor those above it, and a threshold knows no K.
    const std::int32_t two = 2;
    freeze_params bounded = all;
    bounded.limit = &two;
    EXPECT_EQ(few.decide(*backend, bounded), (accepts{1, 0, 1}));
    freeze_params above = all;
    above.floor = 0.3F;
    EXPECT_EQ(few.decide(*backend, above), (accepts{1, 0, 1}));
    for (const freeze_rule rule : {freeze_rule::threshold, freeze_rule::moving_average}) {
      freeze_params bar = all;
      bar.rule = rule;
      bar.threshold = 0.55F;
      EXPECT_EQ(few.decide(*backend, bar), (accepts{1, 0, 0}));
    }
    // One active token freezes by the guard, identical ones let the first through.
    EXPECT_EQ(newest({0.1F}, 3).decide(*backend, {}), (accepts{1}));
    EXPECT_EQ(newest({0.4F, 0.4F, 0.4F}, 1).decide(*backend, {}), (accepts{1, 0, 0}));
    freeze_params open;
    open.always_best = false;
    EXPECT_EQ(newest({0.4F, 0.4F, 0.4F}, 1).decide(*backend, open), (accepts{0, 0, 0}));
    // Equality stays active: 0.5 lies in the middle of 0.75 and 0.25.
    EXPECT_EQ(newest({0.75F, 0.5F, 0.25F}, 2).decide(*backend, {}), (accepts{1, 0, 0}));
    // A floor refuses, the guard does not ask it.
    freeze_params floor;
    floor.floor = 0.85F;
    EXPECT_EQ(s.decide(*backend, floor), (accepts{0, 1, 0, 0}));
    floor.floor = 0.95F;
    EXPECT_EQ(s.decide(*backend, floor), (accepts{0, 1, 0, 0}));
    // A rank below 0 takes all, a NaN nothing.
    scene cap = newest({0.5F, test::nan, 0.3F, 0.8F}, -1);
    EXPECT_EQ(cap.decide(*backend, {}), (accepts{1, 0, 1, 1}));
    scene gap = newest({0.5F, test::nan, 0.3F, 0.8F}, 1);
    EXPECT_EQ(gap.decide(*backend, {}), (accepts{0, 0, 0, 1}));
  }
}

TEST(freeze, scope_limit_and_ranking_by_hand) {
  const std::vector<std::int32_t> first{1}, last{5}, one{1};
  for (const backend* backend : backends) {
    SCOPED_TRACE(backend->name());
    // Position 0 is the best of all but lies outside.
    scene s = newest({0.99F, 0.5F, 0.9F, 0.3F, 0.8F, 0.97F}, 2);
    freeze_params inside;
    inside.first = first.data();
    inside.last = last.data();
    EXPECT_EQ(s.decide(*backend, inside), (accepts{0, 0, 1, 0, 1, 0}));
    inside.limit = one.data();
    EXPECT_EQ(s.decide(*backend, inside), (accepts{0, 0, 1, 0, 0, 0}));
    // Positions 2 and 4 are decided: alone, 1 against 3; with them ranked, high is 0.9 and the
    // boundary 0.5, so that 0.5 stays and only the guard lets it go.
    scene decided({{{0.99F}, {0.5F}, {0.9F}, {0.3F}, {0.8F}, {0.97F}}}, 2, {{0, 1, 3, 5}});
    freeze_params region;
    region.first = first.data();
    region.last = last.data();
    EXPECT_EQ(decided.decide(*backend, region), (accepts{0, 1, 0, 0}));
    region.rank_all = true;
    region.always_best = false;
    EXPECT_EQ(decided.decide(*backend, region), (accepts{0, 0, 0, 0}));
    region.always_best = true;
    EXPECT_EQ(decided.decide(*backend, region), (accepts{0, 1, 0, 0}));
  }
}

// A token that has just jumped as high prototype: a steady one is refused unless negative weights
// are cut.
TEST(freeze, a_jump_refuses_a_steady_token) {
  for (const backend* backend : backends) {
    scene s({{{0.99F, 0.1F, 0.1F}, {0.95F, 0.95F, 0.95F}, {0.5F, 0.5F, 0.5F}}}, 2);
    EXPECT_EQ(s.decide(*backend, {}), (accepts{1, 0, 0}));
    freeze_params cut;
    cut.clamp_weights = true;
    EXPECT_EQ(s.decide(*backend, cut), (accepts{1, 1, 0}));
  }
}

// Three steps of three tokens, K = 1. Another token is best in every step, so that the trace of rank 1
// is no row: (0.9, 0.8, 0.7), and that of rank 2 (0.5, 0.6, 0.4).
TEST(freeze, traces_follow_the_ranks) {
  const std::vector<std::vector<float>> steps{
      {0.7F, 0.4F, 0.1F}, {0.6F, 0.8F, 0.2F}, {0.5F, 0.3F, 0.9F}};
  for (const backend* backend : backends) {
    SCOPED_TRACE(backend->name());
    std::vector<float> trace(6, 0.0F);
    std::vector<std::vector<float>> rows(3, std::vector<float>(3, 0.0F));
    freeze_params traced;
    traced.trace = trace.data();
    traced.always_best = false;
    accepts last;
    for (const std::vector<float>& step : steps) {
      for (std::size_t p = 0; p < rows.size(); ++p) {
        rows[p] = {step[p], rows[p][0], rows[p][1]};
      }
      last = scene({rows}, 1).decide(*backend, traced);
    }
    EXPECT_EQ(trace, (std::vector<float>{0.9F, 0.8F, 0.7F, 0.5F, 0.6F, 0.4F}));
    // w = (0.4, 0.2, 0.3), q = (1.94 - 0.77) / 2 = 0.585. Token 0: 0.2 + 0.12 + 0.21 = 0.53; token 1:
    // 0.12 + 0.16 + 0.12 = 0.4; token 2: 0.36 + 0.04 + 0.03 = 0.43. None freezes, though rank 1 is far off.
    EXPECT_EQ(last, (accepts{0, 0, 0}));
    // One active token has no boundary: the traces stay as they are.
    scene({std::vector<std::vector<float>>{rows[0]}}, 1).decide(*backend, traced);
    EXPECT_EQ(trace[0], 0.9F);
  }
}

TEST(freeze, tier_means_by_hand) {
  for (const backend* backend : backends) {
    // K = 2: high (0.9 + 0.7) / 2 = 0.8, boundary (0.6 + 0.2) / 2 = 0.4, middle 0.6. With single
    // tokens the middle is (0.9 + 0.6) / 2 = 0.75.
    scene s = newest({0.2F, 0.7F, 0.61F, 0.9F, 0.1F}, 2);
    freeze_params tier;
    tier.tier_mean = true;
    EXPECT_EQ(s.decide(*backend, tier), (accepts{0, 1, 1, 1, 0}));
    EXPECT_EQ(s.decide(*backend, {}), (accepts{0, 0, 0, 1, 0}));
  }
}

TEST(freeze, push_by_hand) {
  for (const backend* backend : backends) {
    std::vector<float> history(2 * 3 * 3, 0.0F);
    const tensor_view view = make_view(history.data(), dtype::f32, {2, 3, 3});
    test::candidates_fixture c;
    c.add({0, 2});
    c.add({1});
    const std::vector<float> a{0.1F, 0.2F, 0.3F}, b{0.4F, 0.5F, 0.6F};
    backend->run(op::push_history{c.set(), a.data(), false, view});
    backend->run(
        op::push_history{c.set(), b.data(), true, view});  // rows are scored: nothing to fill
    EXPECT_EQ(history, (std::vector<float>{0.4F, 0.1F, 0, 0, 0, 0, 0.5F, 0.2F, 0,  //
                                           0, 0, 0, 0.6F, 0.3F, 0, 0, 0, 0}));
    std::fill(history.begin(), history.end(), 0.0F);
    backend->run(op::push_history{c.set(), a.data(), true, view});
    EXPECT_EQ(history, (std::vector<float>{0.1F, 0.1F, 0.1F, 0, 0, 0, 0.2F, 0.2F, 0.2F,  //
                                           0, 0, 0, 0.3F, 0.3F, 0.3F, 0, 0, 0}));
  }
}

// |v - h|^2 < |v - b|^2 is w . v > q with w = h - b and q = (|h|^2 - |b|^2) / 2: the distances,
// worked out here, against the backend that uses the linear form.
TEST(freeze, linear_rule_equals_the_distances) {
  std::mt19937 rng(1);
  int decided = 0;
  for (int run = 0; run < 300; ++run) {
    scene x = random_scene(rng, run % 2 == 0);
    freeze_params open;
    open.always_best = false;
    const accepts got = x.decide(cpu_backend(), open);
    for (std::int32_t s = 0; s < 3; ++s) {
      if (x.candidates.begin[s + 1] - x.candidates.begin[s] < 2) continue;
      const auto [high, boundary] = prototypes(x, s);
      for (std::int32_t c = x.candidates.begin[s]; c < x.candidates.begin[s + 1]; ++c) {
        const std::vector<float> v = x.row(s, x.candidates.position[c]);
        double to_high = 0, to_boundary = 0;
        for (std::size_t d = 0; d < v.size(); ++d) {
          to_high += (double{v[d]} - high[d]) * (double{v[d]} - high[d]);
          to_boundary += (double{v[d]} - boundary[d]) * (double{v[d]} - boundary[d]);
        }
        EXPECT_EQ(got[c] != 0, to_high < to_boundary) << to_high << " " << to_boundary;
        ++decided;
      }
    }
  }
  EXPECT_GT(decided, 2000);
}

// Flat prototypes [a, a, a] and [d, d, d]: the rule is mean(v) > (a + d) / 2, which is what the
// moving-average control computes; the variance term cancels.
TEST(freeze, flat_centroids_are_a_threshold_on_the_mean) {
  std::mt19937 rng(2);
  std::uniform_real_distribution<float> below(0.05F, 0.6F), above(0.61F, 0.8F), any(0.0F, 1.0F);
  int frozen = 0, kept = 0;
  for (int run = 0; run < 200; ++run) {
    const float a = 0.9F, d = above(rng);
    std::vector<std::vector<float>> rows = {{a, a, a}, {d, d, d}};
    // Newest confidences below d, so that d keeps rank 2; the older ones are free.
    for (int i = 0; i < 10; ++i) rows.push_back({below(rng), any(rng), any(rng)});
    scene x({rows}, 1);
    for (const backend* backend : backends) {
      const accepts got = x.decide(*backend, {});
      freeze_params control;
      control.rule = freeze_rule::moving_average;
      EXPECT_EQ(got, x.decide(*backend, control));
      control.threshold = (a + d) / 2;
      EXPECT_EQ(got, x.decide(*backend, control));
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const double mean = (double{rows[i][0]} + rows[i][1] + rows[i][2]) / 3;
        EXPECT_EQ(got[i] != 0, mean > (double{a} + d) / 2);
        ++(got[i] != 0 ? frozen : kept);
      }
    }
  }
  EXPECT_GT(frozen, 400);
  EXPECT_GT(kept, 400);
}

// m = 1: freeze iff C > (C_1 + C_{K+1}) / 2, so at most K freeze; Manhattan distance and moving
// average say the same.
TEST(freeze, one_confidence_is_a_midpoint_and_k_bounds_it) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<float> real(0.01F, 1.0F);
  for (int run = 0; run < 200; ++run) {
    std::vector<float> confidence(20);
    for (float& c : confidence) c = real(rng);
    const std::int32_t k = 1 + run % 12;
    scene x = newest(confidence, k);
    std::vector<float> order = confidence;
    std::sort(order.rbegin(), order.rend());
    const double middle = (double{order[0]} + order[static_cast<std::size_t>(k)]) / 2;
    for (const backend* backend : backends) {
      const accepts got = x.decide(*backend, {});
      int n = 0;
      for (std::size_t i = 0; i < confidence.size(); ++i) {
        EXPECT_EQ(got[i] != 0, double{confidence[i]} > middle);
        n += got[i];
      }
      EXPECT_LE(n, k);
      for (const freeze_rule rule : {freeze_rule::manhattan, freeze_rule::moving_average}) {
        freeze_params other;
        other.rule = rule;
        EXPECT_EQ(x.decide(*backend, other), got);
      }
    }
  }
}

// Zeros before the first step cancel in the squared distance: step 1 is the m = 1 rule.
TEST(freeze, the_first_step_is_the_rule_of_one_confidence) {
  std::mt19937 rng(4);
  std::uniform_real_distribution<float> real(0.01F, 1.0F);
  for (int run = 0; run < 100; ++run) {
    std::vector<std::vector<float>> rows;
    std::vector<float> confidence;
    for (int i = 0; i < 15; ++i) {
      confidence.push_back(real(rng));
      rows.push_back({confidence.back(), 0.0F, 0.0F});
    }
    scene deep({rows}, 4), flat = newest(confidence, 4);
    for (const backend* backend : backends) {
      EXPECT_EQ(deep.decide(*backend, {}), flat.decide(*backend, {}));
      // All rows are multiples of each other: no cosine is larger, and the guard takes the best.
      freeze_params cosine;
      cosine.rule = freeze_rule::cosine;
      accepts best(15, 0);
      best[static_cast<std::size_t>(std::max_element(confidence.begin(), confidence.end()) -
                                    confidence.begin())] = 1;
      EXPECT_EQ(deep.decide(*backend, cosine), best);
      cosine.always_best = false;
      EXPECT_EQ(deep.decide(*backend, cosine), accepts(15, 0));
    }
  }
}

// The best token freezes without the guard's help unless its history equals the boundary's.
TEST(freeze, the_best_token_freezes_unless_it_equals_the_boundary) {
  std::mt19937 rng(5);
  int equal = 0;
  for (int run = 0; run < 400; ++run) {
    scene x = random_scene(rng, true);
    freeze_params open;
    open.always_best = false;
    for (const backend* backend : backends) {
      const accepts got = x.decide(*backend, open);
      for (std::int32_t s = 0; s < 3; ++s) {
        if (x.candidates.begin[s] == x.candidates.begin[s + 1]) continue;
        const auto [high, boundary] = prototypes(x, s);
        std::int32_t best = x.candidates.begin[s];
        for (std::int32_t c = best; c < x.candidates.begin[s + 1]; ++c) {
          if (x.row(s, x.candidates.position[c])[0] > x.row(s, x.candidates.position[best])[0])
            best = c;
        }
        EXPECT_EQ(got[best] != 0, high != boundary);
        equal += high == boundary;
      }
    }
  }
  EXPECT_GT(equal, 10);
}

TEST(unsettled, by_hand) {
  for (const backend* backend : backends) {
    SCOPED_TRACE(backend->name());
    const accepts start{2, 2, 1, 0, 2, 0, 1, 2};
    const std::vector<std::int32_t> first{1}, last{8};
    const auto run = [&](const delayed_cache_params& params, bool whole) {
      accepts state = start, flags(8, 9);
      const std::uint8_t all = whole ? 1 : 0;
      backend->run(op::advance_delayed_cache{make_view(state.data(), dtype::u8, {1, 8}), params,
                                             first.data(), last.data(), &all,
                                             make_view(flags.data(), dtype::u8, {1, 8})});
      EXPECT_EQ(state, (accepts{2, 2, 2, 0, 2, 0, 2, 2}));
      return flags;
    };
    delayed_cache_params params;
    EXPECT_EQ(run(params, false), (accepts{9, 0, 1, 1, 0, 1, 1, 0}));
    EXPECT_EQ(run(params, true), (accepts{9, 1, 1, 1, 1, 1, 1, 1}));
    params.shifted = true;  // 4 predicts 5, 2 predicts 3
    EXPECT_EQ(run(params, false), (accepts{9, 0, 1, 1, 1, 1, 1, 0}));
    params.delay = false;
    EXPECT_EQ(run(params, false), (accepts{9, 0, 1, 1, 1, 1, 0, 0}));
    params.shifted = false;
    EXPECT_EQ(run(params, false), (accepts{9, 0, 0, 1, 0, 1, 0, 0}));
  }
}

}  // namespace
}  // namespace unmask
