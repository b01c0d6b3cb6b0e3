// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "harness/analysis/paired_statistics.h"

namespace unmask {
namespace {

TEST(paired_statistics, ratio_by_hand) {
  // Logs of the ratios: log 2, log 2, log 4; mean (4/3) log 2, deviation log 2 / sqrt 3.
  const estimate e = paired_ratio({2, 4, 4}, {1, 2, 1});
  const double unit = std::log(2.0);
  EXPECT_NEAR(e.value, std::pow(2.0, 4.0 / 3), 1e-12);
  ASSERT_TRUE(e.range);
  const double half = 4.302652729911275 * (unit / std::sqrt(3.0)) / std::sqrt(3.0);  // t, 2 df
  EXPECT_NEAR(e.range->low, e.value * std::exp(-half), 1e-9);
  EXPECT_NEAR(e.range->high, e.value * std::exp(half), 1e-9);
}

TEST(paired_statistics, pairing_takes_common_drift_out) {
  // Both grow threefold while they run; their ratio does not move.
  const std::vector<double> a = {1.0, 1.5, 2.2, 3.0}, b = {1.1, 1.65, 2.42, 3.3};
  const estimate paired = paired_ratio(b, a), apart = unpaired_ratio(b, a);
  EXPECT_NEAR(paired.value, 1.1, 1e-9);
  EXPECT_LT(paired.range->high - paired.range->low, 1e-6);
  EXPECT_GT(apart.range->high - apart.range->low, 1.0);
}

TEST(paired_statistics, too_few_or_impossible_samples_have_no_interval) {
  EXPECT_FALSE(paired_ratio({1}, {2}).range);
  EXPECT_NEAR(paired_ratio({1}, {2}).value, 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(paired_ratio({}, {}).value));
  EXPECT_TRUE(std::isnan(paired_ratio({0, 1}, {1, 1}).value));
  EXPECT_FALSE(unpaired_ratio({1, 1}, {2}).range);
}

// Newcombe (1998), independent differences, table II: 56/70 - 48/80 and 9/10 - 3/10.
TEST(paired_statistics, independent_shares_as_published) {
  const estimate a = share_difference(56.0 / 70, 70, 48.0 / 80, 80);
  EXPECT_NEAR(a.range->low, 0.0524, 5e-5);
  EXPECT_NEAR(a.range->high, 0.3339, 5e-5);
  const estimate b = share_difference(0.9, 10, 0.3, 10);
  EXPECT_NEAR(b.range->low, 0.1705, 5e-5);
  EXPECT_NEAR(b.range->high, 0.8090, 5e-5);
}

TEST(paired_statistics, mcnemar_is_a_fair_coin) {
  EXPECT_DOUBLE_EQ(mcnemar_p(0, 0), 1);
  EXPECT_NEAR(mcnemar_p(0, 5), 2.0 / 32, 1e-12);
  EXPECT_NEAR(mcnemar_p(1, 9), 2 * 11.0 / 1024, 1e-12);
  EXPECT_DOUBLE_EQ(mcnemar_p(4, 4), 1);
}

TEST(paired_statistics, paired_shares_swap_sign_and_cover) {
  const estimate a = paired_share_difference(10, 6, 2, 7), b = paired_share_difference(10, 2, 6, 7);
  EXPECT_NEAR(a.value, 4.0 / 25, 1e-12);
  EXPECT_NEAR(a.range->low, -b.range->high, 1e-12);
  EXPECT_NEAR(a.range->high, -b.range->low, 1e-12);
  // Identical answers are no proof of equality: the interval keeps its width.
  EXPECT_LT(paired_share_difference(5, 0, 0, 5).range->low, -0.01);
  std::mt19937 random(1);
  std::size_t covered = 0;
  constexpr std::size_t trials = 2000;
  for (std::size_t t = 0; t < trials; ++t) {
    std::size_t cells[4] = {0, 0, 0, 0};
    std::discrete_distribution<int> draw({0.5, 0.2, 0.1, 0.2});
    for (int i = 0; i < 40; ++i) ++cells[draw(random)];
    const estimate e = paired_share_difference(cells[0], cells[1], cells[2], cells[3]);
    covered += e.range->low <= 0.1 && 0.1 <= e.range->high;
  }
  EXPECT_GT(static_cast<double>(covered) / trials, 0.93);
  EXPECT_LT(static_cast<double>(covered) / trials, 0.98);
}

TEST(paired_statistics, partial_credit_is_resampled_and_repeats_itself) {
  const std::vector<double> a = {0.5, 0.75, 1, 0.25, 0.5}, b = {0.25, 0.5, 1, 0.25, 0};
  const estimate one = paired_score_difference(a, b), two = paired_score_difference(a, b);
  EXPECT_NEAR(one.value, 0.2, 1e-12);
  EXPECT_EQ(one.range->low, two.range->low);
  EXPECT_GE(one.range->low, 0);
  EXPECT_LE(one.range->high, 0.5);
  EXPECT_LT(one.range->low, one.range->high);
  EXPECT_EQ(one.how, "paired bootstrap");
  EXPECT_EQ(paired_score_difference({1, 0}, {0, 0}).how, "paired shares, Newcombe");
}

}  // namespace
}  // namespace unmask
