// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "harness/rows/statistics.h"

namespace unmask {
namespace {

TEST(statistics, mean_in_closed_form) {
  EXPECT_DOUBLE_EQ(mean_of({1, 2, 6}), 3);
  EXPECT_TRUE(std::isnan(mean_of({})));
  EXPECT_DOUBLE_EQ(mean_of({1.5e308, 1.5e308}), 1.5e308);  // a plain sum would be infinite
}

// Deviation of {1, 2, 3} is 1 with n - 1 below (0.816 with n); t(0.975, 2) = 4.302652729911275, so
// the half width is 4.302652729911275 / sqrt(3) / 2 = 1.2420688. The normal quantile would give
// 0.566, and t with 3 degrees of freedom 0.919.
TEST(statistics, half_width_uses_student_with_n_minus_one) {
  EXPECT_DOUBLE_EQ(deviation_of({1, 2, 3}), 1);
  EXPECT_NEAR(relative_half_width({1, 2, 3}), 1.2420688, 1e-6);
  EXPECT_EQ(relative_half_width({5}), std::numeric_limits<double>::infinity());
  EXPECT_EQ(relative_half_width({2, 2, 2}), 0);
  EXPECT_TRUE(std::isnan(relative_half_width({0, 0})));
}

// 8 of 10: published Wilson interval 0.4902 to 0.9433; the Wald interval would be 0.552 to 1.048.
TEST(statistics, wilson_interval_at_known_points) {
  const interval i = wilson_interval(8, 10);
  EXPECT_NEAR(i.low, 0.4902, 1e-4);
  EXPECT_NEAR(i.high, 0.9433, 1e-4);
  const interval all = wilson_interval(20, 20);
  EXPECT_NEAR(all.low, 0.8389, 1e-4);
  EXPECT_DOUBLE_EQ(all.high, 1);
  for (std::size_t n = 1; n < 300; ++n) {
    EXPECT_EQ(wilson_interval(0, n).low, 0) << n;
    EXPECT_EQ(wilson_interval(static_cast<double>(n), n).high, 1) << n;
  }
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

// Mean 0.5, deviation 0.1 with n - 1 below: t(0.975, 4) = 2.7764451, half width 2.7764451 * 0.1 /
// sqrt(5) = 0.1241664.
TEST(statistics, graded_scores_have_students_interval) {
  const interval i = score_interval({0.4, 0.4, 0.5, 0.6, 0.6});
  EXPECT_NEAR(i.low, 0.5 - 0.1241664, 1e-6);
  EXPECT_NEAR(i.high, 0.5 + 0.1241664, 1e-6);
  EXPECT_EQ(score_interval({1, 0, 1, 1}).low, wilson_interval(3, 4).low);
  for (const std::vector<double>& nothing :
       {std::vector<double>{0.4, 0.5, 0.6, 0.7}, std::vector<double>(9, 0.5)}) {
    EXPECT_EQ(score_interval(nothing).low, 0);
    EXPECT_EQ(score_interval(nothing).high, 1);
  }
  EXPECT_EQ(score_interval({0.1, 0.9, 0.1, 0.9, 0.1}).low, 0);  // cut
}

TEST(statistics, percentiles_are_order_statistics) {
  std::vector<double> twenty;
  for (int i = 20; i > 0; --i) twenty.push_back(i);
  EXPECT_EQ(percentile_of(twenty, 0.5), 10);
  EXPECT_EQ(percentile_of(twenty, 0.95), 19);
  EXPECT_EQ(percentile_of(twenty, 1), 20);
  EXPECT_EQ(percentile_of({7}, 0.5), 7);
}

TEST(statistics, percentiles_must_be_earned) {
  EXPECT_FALSE(percentile_earned(0.5, 5));
  EXPECT_TRUE(percentile_earned(0.5, 6));
  EXPECT_FALSE(percentile_earned(0.95, 58));
  EXPECT_TRUE(percentile_earned(0.95, 59));
  EXPECT_FALSE(percentile_earned(0.99, 298));
  EXPECT_TRUE(percentile_earned(0.99, 299));
}

TEST(statistics, stopping_rule_gives_its_reason) {
  const stopping_rule rule(3, 6, 0.01);
  EXPECT_EQ(rule.reason({1, 1}), "");
  EXPECT_EQ(rule.reason({1, 1, 1, 1}), "");  // too few, though equal
  EXPECT_EQ(rule.reason({1, 1, 1, 1, 1}), "half_width");
  EXPECT_EQ(rule.reason({1, 2, 3, 1, 2}), "");
  EXPECT_EQ(rule.reason({1, 2, 3, 1, 2, 3}), "max_repetitions");
  const double nan = std::nan("");
  EXPECT_EQ(rule.reason({nan, nan, nan, nan, nan}), "");  // noise that never settles still ends
  EXPECT_EQ(rule.reason({nan, nan, nan, nan, nan, nan}), "max_repetitions");
  EXPECT_EQ(stopping_rule(3, 3, 0.5).reason({1, 1, 1}), "max_repetitions");
  EXPECT_EQ(stopping_rule(1, 1, 0.5).reason({1}), "max_repetitions");
}

}  // namespace
}  // namespace unmask
