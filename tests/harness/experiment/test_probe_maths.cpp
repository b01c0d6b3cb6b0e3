// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Every function of the probes on cases worked by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/experiment/probe_maths.h"

namespace unmask::probe_maths {
namespace {

// Positions 4, 5, 6, 7 over four steps. Position 6 is decided by step 0, 4 by step 2, 7 and 5 by
// step 3.
decision_trace example() {
  return {{{4, 1, 0.5F, false}, {5, 2, 0.3F, false}, {6, 3, 0.95F, true}, {7, 4, 0.4F, false}},
          {{4, 1, 0.8F, false}, {5, 9, 0.2F, false}, {7, 4, 0.5F, false}},
          {{4, 1, 0.7F, true}, {5, 2, 0.6F, false}, {7, 8, 0.3F, false}},
          {{5, 2, 0.91F, true}, {7, 4, 0.92F, true}}};
}

TEST(probe_maths, pairs_are_of_positions_masked_in_both_steps) {
  const confidence_pairs p = pairs_of(example());
  const std::vector<float> before = {0.5F, 0.3F, 0.4F, 0.8F, 0.2F, 0.5F, 0.6F, 0.3F};
  const std::vector<float> now = {0.8F, 0.2F, 0.5F, 0.7F, 0.6F, 0.3F, 0.91F, 0.92F};
  ASSERT_EQ(p.now.size(), now.size());
  for (std::size_t i = 0; i < now.size(); ++i) {
    EXPECT_EQ(p.before[i], double{before[i]});
    EXPECT_EQ(p.now[i], double{now[i]});
  }
  EXPECT_TRUE(pairs_of({}).now.empty());
}

TEST(probe_maths, correlation) {
  const std::vector<double> a = {1, 2, 3, 4}, up = {2, 4, 6, 8}, down = {4, 3, 2, 1},
                            flat = {5, 5, 5, 5}, mixed = {1, 3, 2, 4};
  EXPECT_DOUBLE_EQ(correlation(a, up), 1);
  EXPECT_DOUBLE_EQ(correlation(a, down), -1);
  EXPECT_DOUBLE_EQ(correlation(a, mixed), 0.8);
  EXPECT_TRUE(std::isnan(correlation(a, flat)));
  EXPECT_TRUE(std::isnan(correlation({}, {})));
}

// Decided with a predecessor: 4 in step 2 (first of step 1), 5 and 7 in step 3 (in step 2, of what
// was still masked, 5 was first and 7 second).
TEST(probe_maths, recall_by_hand) {
  EXPECT_EQ(recall_of_top(example(), 1).whole, 3);
  EXPECT_EQ(recall_of_top(example(), 1).part, 2);
  EXPECT_EQ(recall_of_top(example(), 2).part, 3);
  // Ties go to the lowest position.
  const decision_trace tie = {{{1, 0, 0.5F, false}, {2, 0, 0.5F, false}}, {{2, 0, 0.9F, true}}};
  EXPECT_EQ(recall_of_top(tie, 1).part, 0);
  EXPECT_EQ(recall_of_top(tie, 2).part, 1);
}

// Same arg-max and below 0.9: step 1: 4, 7; step 2: 4; step 3: 5 has the same but is above.
// Pairs: 8.
TEST(probe_maths, stagnation_by_hand) {
  EXPECT_EQ(stagnation_of(example(), 0.9).part, 3);
  EXPECT_EQ(stagnation_of(example(), 0.9).whole, 8);
  EXPECT_EQ(stagnation_of(example(), 0.6).part, 1);   // 7 in step 1
  EXPECT_EQ(stagnation_of(example(), 0.92).part, 4);  // and 5 in step 3
  EXPECT_TRUE(std::isnan(share{}.value()));
}

// Stable from: 4 step 0, 6 step 0, 5 step 2, 7 step 3.
// Items, not tokens, are what was sampled: one long item alone makes a share uncertain.
TEST(probe_maths, shares_are_uncertain_by_item) {
  const std::vector<share> even(40, share{1, 4});
  const auto exact = interval_of(even, &share::value);
  ASSERT_EQ(exact.size(), 2u);
  EXPECT_DOUBLE_EQ(exact[0], 0.25);
  EXPECT_DOUBLE_EQ(exact[1], 0.25);
  std::vector<share> mixed(10, share{0, 10});
  for (std::size_t i = 0; i < 5; ++i) mixed[i].part = 10;
  const auto wide = interval_of(mixed, &share::value);
  EXPECT_LT(wide[0], 0.35);  // of ten items about half: 0.2 to 0.8
  EXPECT_GT(wide[1], 0.65);
  EXPECT_EQ(interval_of(mixed, &share::value), wide);  // a fixed generator
  EXPECT_TRUE(interval_of(std::span(mixed).first(1), &share::value).empty());
  EXPECT_TRUE(interval_of(std::vector<share>(), &share::value).empty());
}

TEST(probe_maths, missed_stable_by_hand) {
  const std::vector<share> s = missed_stable(example(), 0.9);
  ASSERT_EQ(s.size(), 4U);
  EXPECT_EQ(s[0].whole, 2);
  EXPECT_EQ(s[0].part, 1);
  EXPECT_EQ(s[1].whole, 1);
  EXPECT_EQ(s[1].part, 1);
  EXPECT_EQ(s[2].whole, 2);
  EXPECT_EQ(s[2].part, 2);
  EXPECT_EQ(s[3].whole, 2);
  EXPECT_EQ(s[3].part, 0);
  // A position that is never decided has no final token.
  EXPECT_EQ(missed_stable({{{1, 5, 0.2F, false}}}, 0.9)[0].whole, 0);
}

// 4 peaked at 0.8 and was decided at 0.7 with the same token; nothing else declined.
TEST(probe_maths, decline_by_hand) {
  const decline d = post_peak_decline(example(), 0.05);
  EXPECT_EQ(d.decided, 4);
  EXPECT_EQ(d.declined, 1);
  EXPECT_TRUE(d.other.empty());
  EXPECT_NEAR(d.drop, 0.1, 1e-6);
  EXPECT_EQ(post_peak_decline(example(), 0.2).declined, 0);
  const decision_trace changed = {{{1, 5, 0.9F, false}}, {{1, 6, 0.6F, true}}};
  EXPECT_EQ(post_peak_decline(changed, 0.05).other.size(), 1U);
}

// Of a position whose arg-max changed after its peak, both tokens are kept.
TEST(probe_maths, decline_events_by_hand) {
  const decision_trace t = {{{1, 5, 0.9F, false}, {2, 7, 0.8F, false}},
                            {{1, 6, 0.6F, true}, {2, 8, 0.9F, false}},
                            {{2, 8, 0.5F, true}}};
  const decline d = post_peak_decline(t, 0.05);
  EXPECT_EQ(d.declined, 2);
  ASSERT_EQ(d.other.size(), 1U);
  EXPECT_EQ(d.other[0].position, 1);
  EXPECT_EQ(d.other[0].peak_token, 5);
  EXPECT_EQ(d.other[0].token, 6);
  EXPECT_NEAR(d.drop, 0.3 + 0.4, 1e-6);
}

// 4 peaks in step 1, 5 in step 3 (when it is decided), 6 in step 0, 7 in step 3.
TEST(probe_maths, peaks_by_hand) {
  const std::vector<confidence_peak> p = peaks_of(example());
  ASSERT_EQ(p.size(), 4U);
  const std::int32_t want[4][3] = {{4, 1, 1}, {5, 3, 2}, {6, 0, 3}, {7, 3, 4}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(p[i].position, want[i][0]);
    EXPECT_EQ(p[i].step, want[i][1]);
    EXPECT_EQ(p[i].token, want[i][2]);
  }
  // The first of equal peaks; positions that are never decided have none.
  const decision_trace tie = {{{1, 5, 0.7F, false}, {2, 9, 0.9F, false}}, {{1, 6, 0.7F, true}}};
  ASSERT_EQ(peaks_of(tie).size(), 1U);
  EXPECT_EQ(peaks_of(tie)[0].step, 0);
  EXPECT_EQ(peaks_of(tie)[0].token, 5);
}

TEST(probe_maths, canvas_and_answer_length) {
  EXPECT_EQ(canvas_of(example(), 4, 5), (std::vector<std::int32_t>{1, 2, 3, 4, -1}));
  EXPECT_EQ(canvas_of(example(), 5, 2), (std::vector<std::int32_t>{2, 3}));
  const std::vector<std::int32_t> stops = {3, 8};
  EXPECT_EQ(answer_length(canvas_of(example(), 4, 4), stops), 3U);
  EXPECT_EQ(answer_length(std::vector<std::int32_t>{1, 2}, stops), 2U);
}

// Decided: 1 2 3 4 with confidences 0.7, 0.91, 0.95, 0.92. The other decode says 1 9 3 7 and stops
// at 3: the answer is three tokens, of which one differs.
TEST(probe_maths, contradictions_by_hand) {
  const std::vector<std::int32_t> other = {1, 9, 3, 7}, stops = {3};
  const contradiction c = contradictions(example(), 4, other, stops);
  EXPECT_EQ(c.canvas.whole, 4);
  EXPECT_EQ(c.canvas.part, 2);
  EXPECT_EQ(c.answer.whole, 3);
  EXPECT_EQ(c.answer.part, 1);
  const std::int64_t compared[] = {0, 0, 0, 0, 0, 0, 0, 1, 0, 3};
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(c.by_confidence[i].whole, compared[i]) << i;
    EXPECT_EQ(c.by_confidence[i].part, i == 9 ? 2 : 0) << i;
  }
  // What the other never decided cannot contradict; the longer answer counts.
  const std::vector<std::int32_t> short_one = {3, -1, 5, 4};
  const contradiction d = contradictions(example(), 4, short_one, stops);
  EXPECT_EQ(d.canvas.whole, 3);
  EXPECT_EQ(d.canvas.part, 2);
  EXPECT_EQ(d.answer.whole, 2);
  EXPECT_EQ(d.answer.part, 2);
}

TEST(probe_maths, counts_per_step) {
  EXPECT_EQ(decided_per_step(example()), (std::vector<std::int64_t>{1, 0, 1, 2}));
  EXPECT_EQ(judged_per_step(example()), (std::vector<std::int64_t>{4, 3, 3, 2}));
  std::vector<std::int64_t> counts = {1};
  add_to_histogram(decided_per_step(example()), counts);
  EXPECT_EQ(counts, (std::vector<std::int64_t>{2, 2, 1}));
}

TEST(probe_maths, area_under_curve_counts_ties_half) {
  const std::vector<float> high = {3, 4}, low = {1, 2}, same = {1, 3};
  EXPECT_DOUBLE_EQ(area_under_curve(high, low), 1);
  EXPECT_DOUBLE_EQ(area_under_curve(low, high), 0);
  EXPECT_DOUBLE_EQ(area_under_curve(same, same), 0.5);
  EXPECT_DOUBLE_EQ(area_under_curve(high, same), 0.875);  // 3 > 1, 3 = 3, 4 > 1, 4 > 3
  EXPECT_TRUE(std::isnan(area_under_curve({}, low)));
}

TEST(probe_maths, percentile_bins_are_of_equal_size) {
  const std::vector<float> v = {10, 1, 9, 2, 8, 3, 7, 4, 6, 5};
  EXPECT_EQ(percentile_bins(v, 5), (std::vector<std::int32_t>{4, 0, 4, 0, 3, 1, 3, 1, 2, 2}));
  const std::vector<float> ties = {1, 1, 1, 1};
  EXPECT_EQ(percentile_bins(ties, 2), (std::vector<std::int32_t>{0, 0, 1, 1}));
  EXPECT_TRUE(percentile_bins({}, 5).empty());
}

TEST(probe_maths, standard_scores) {
  const std::vector<float> v = {2, 4, 4, 4, 5, 5, 7, 9}, flat = {3, 3};  // mean 5, sigma 2
  EXPECT_EQ(standard_scores(v), (std::vector<float>{-1.5F, -0.5F, -0.5F, -0.5F, 0, 0, 1, 2}));
  EXPECT_EQ(standard_scores(flat), (std::vector<float>{0, 0}));
}

// Others 1, -3, 1, -3: mean -1, sigma 2. Decodable 2, 3, 4: mean 3. gamma = 3 / 2, and 4 / 2 from
// the others' own mean.
TEST(probe_maths, gamma_by_hand) {
  const auto of = [](const std::vector<double>& yes, const std::vector<double>& no) {
    importance_deltas d;
    for (const double v : yes) d.decodable.add(v);
    for (const double v : no) d.not_decodable.add(v);
    return d;
  };
  const std::vector<importance_deltas> items = {of({2}, {1, -3}), of({3, 4}, {1}), of({}, {-3})};
  const importance_deltas all = sum_of(items);
  EXPECT_EQ(all.decodable.n, 3);
  EXPECT_EQ(all.not_decodable.n, 4);
  EXPECT_DOUBLE_EQ(all.not_decodable.deviation(), 2);
  EXPECT_DOUBLE_EQ(all.gamma(), 1.5);
  EXPECT_DOUBLE_EQ(all.separation(), 2);
  EXPECT_TRUE(std::isnan(of({2}, {1, 1}).gamma()));
  EXPECT_TRUE(std::isnan(of({}, {1, 2}).gamma()));
  EXPECT_TRUE(std::isnan(of({1}, {}).separation()));
  // Items alike: every draw has the same value.
  const std::vector<importance_deltas> alike(5, of({2, 4}, {1, -3}));
  EXPECT_EQ(interval_of(alike, &importance_deltas::gamma), (std::vector<double>{1.5, 1.5}));
  EXPECT_EQ(interval_of(alike, &importance_deltas::separation), (std::vector<double>{2, 2}));
  EXPECT_TRUE(interval_of(std::span(alike).first(1), &importance_deltas::gamma).empty());
}

TEST(probe_maths, attention_by_hand) {
  // Scores ln 1, ln 2, ln 5 after scaling by one half.
  const std::vector<float> q = {2, 0}, keys = {0, 7, std::log(2.0F), -1, std::log(5.0F), 3};
  const std::vector<float> w = attention_row(q, keys, 0.5F);
  ASSERT_EQ(w.size(), 3U);
  EXPECT_NEAR(w[0], 0.125, 1e-6);
  EXPECT_NEAR(w[1], 0.25, 1e-6);
  EXPECT_NEAR(w[2], 0.625, 1e-6);
  EXPECT_TRUE(attention_row(q, {}, 1).empty());
}

TEST(probe_maths, largest_and_overlap) {
  const std::vector<double> v = {0.1, 0.5, 0.5, 0.9, 0.0};
  EXPECT_EQ(largest(v, 2), (std::vector<std::int32_t>{1, 3}));
  EXPECT_EQ(largest(v, 9).size(), 5U);
  EXPECT_TRUE(largest(v, 0).empty());
  const std::vector<std::int32_t> a = {1, 3, 5, 7}, b = {3, 4, 7};
  EXPECT_DOUBLE_EQ(overlap(a, b), 0.5);
  EXPECT_DOUBLE_EQ(overlap(a, a), 1);
  EXPECT_TRUE(std::isnan(overlap({}, a)));
}

TEST(probe_maths, shrink_keeps_the_mean) {
  std::vector<float> v;
  for (int i = 0; i < 5 * 6; ++i) v.push_back(static_cast<float>(i % 6));
  const small_map m = shrink(v, 5, 6, 3);  // rows of 1, 2, 2; columns of 2
  EXPECT_EQ(m.rows, 3);
  EXPECT_EQ(m.columns, 3);
  EXPECT_EQ(m.values, (std::vector<double>{0.5, 2.5, 4.5, 0.5, 2.5, 4.5, 0.5, 2.5, 4.5}));
  const small_map whole = shrink(v, 5, 6, 9);
  EXPECT_EQ(whole.rows, 5);
  EXPECT_EQ(whole.values, std::vector<double>(v.begin(), v.end()));
}

TEST(probe_maths, distance) {
  const std::vector<float> a = {1, 2, 3}, b = {1, 5, 7};
  EXPECT_DOUBLE_EQ(distance(a, b), 5);
  EXPECT_DOUBLE_EQ(distance(a, a), 0);
}

}  // namespace
}  // namespace unmask::probe_maths
