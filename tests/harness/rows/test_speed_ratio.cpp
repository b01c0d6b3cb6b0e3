// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>

#include "harness/rows/estimates.h"

namespace unmask {
namespace {

TEST(speed_ratio, by_hand) {
  // Logs of the ratios: log 2, log 2, log 4; mean (4/3) log 2, deviation log 2 / sqrt 3.
  const speed_ratio e = paired_ratio({2, 4, 4}, {1, 2, 1});
  EXPECT_NEAR(e.value, std::pow(2.0, 4.0 / 3), 1e-12);
  ASSERT_TRUE(e.range);
  const double half = 4.302652729911275 * (std::log(2.0) / std::sqrt(3.0)) / std::sqrt(3.0);
  EXPECT_NEAR(e.range->low, e.value * std::exp(-half), 1e-9);
  EXPECT_NEAR(e.range->high, e.value * std::exp(half), 1e-9);
}

TEST(speed_ratio, pairing_takes_common_drift_out) {
  // Both grow threefold while they run; their ratio does not move.
  const std::vector<double> a = {1.0, 1.5, 2.2, 3.0}, b = {1.1, 1.65, 2.42, 3.3};
  const speed_ratio paired = paired_ratio(b, a), apart = unpaired_ratio(b, a);
  EXPECT_NEAR(paired.value, 1.1, 1e-9);
  EXPECT_LT(paired.range->high - paired.range->low, 1e-6);
  EXPECT_GT(apart.range->high - apart.range->low, 1.0);
}

TEST(speed_ratio, too_few_or_impossible_samples_have_no_interval) {
  EXPECT_FALSE(paired_ratio({1}, {2}).range);
  EXPECT_NEAR(paired_ratio({1}, {2}).value, 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(paired_ratio({}, {}).value));
  EXPECT_TRUE(std::isnan(paired_ratio({0, 1}, {1, 1}).value));
  EXPECT_FALSE(unpaired_ratio({1, 1}, {2}).range);
}

// Ten likelihoods of mean 0.47: Wilson's interval starts at 0.215, and says nothing of them.
TEST(score_range, graded_scores_of_old_rows_have_none) {
  score_record score;
  score.mean = 0.47;
  score.n = 10;
  const interval old = wilson_interval(4.7, 10);
  score.low = old.low;
  score.high = old.high;
  EXPECT_FALSE(score_range(score));
  score.low = 0.45;
  score.high = 0.49;
  ASSERT_TRUE(score_range(score));
  EXPECT_EQ(score_range(score)->high, 0.49);
  score.mean = 0.4;
  score.exact = 4;
  const interval right = wilson_interval(4, 10);
  score.low = right.low;
  score.high = right.high;
  ASSERT_TRUE(score_range(score));
  EXPECT_EQ(score_range(score)->low, right.low);
}

}  // namespace
}  // namespace unmask
