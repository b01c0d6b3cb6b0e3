// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "kernels/cpu/crowd.h"

namespace unmask::cpu {
namespace {

constexpr std::int64_t ms = 1'000'000;

TEST(crowd, short_waits_and_those_of_large_products_keep_the_team) {
  crowd_watch watch;
  watch.ended(10 * ms, ms / 10, ms - 1);  // long for its work, but short
  watch.ended(20 * ms, 9 * ms, 4 * ms);   // the last piece of a large product
  EXPECT_TRUE(watch.team_allowed(20 * ms));
  EXPECT_EQ(watch.pauses(), 0);
}

TEST(crowd, a_long_wait_sends_the_team_away_and_it_comes_back) {
  crowd_watch watch;
  watch.ended(100 * ms, ms / 10, 3 * ms);
  EXPECT_FALSE(watch.team_allowed(100 * ms));
  EXPECT_FALSE(watch.team_allowed(149 * ms));
  EXPECT_TRUE(watch.team_allowed(150 * ms));
  EXPECT_EQ(watch.pauses(), 1);
}

// On cores that others hold, looking costs a long wait each time.
TEST(crowd, looks_become_rare_while_waits_stay_long) {
  crowd_watch watch;
  std::int64_t now = 0;
  int looks = 0;
  while (now < 10'000 * ms) {
    now += ms;
    if (!watch.team_allowed(now)) continue;
    now += 12 * ms;
    watch.ended(now, ms / 10, 12 * ms);
    ++looks;
  }
  EXPECT_LE(looks, 14);
  EXPECT_GE(looks, 9);
}

TEST(crowd, after_calm_time_a_single_long_wait_costs_little) {
  crowd_watch watch;
  for (const std::int64_t at : {0 * ms, 100 * ms, 1000 * ms}) watch.ended(at, 0, 5 * ms);
  EXPECT_FALSE(watch.team_allowed(1799 * ms));  // 50, 200, 800 ms
  EXPECT_TRUE(watch.team_allowed(1800 * ms));
  watch.ended(1850 * ms, ms / 10, ms / 100);  // not calm for long enough
  watch.ended(1900 * ms, 0, 5 * ms);
  EXPECT_FALSE(watch.team_allowed(2899 * ms));
  EXPECT_TRUE(watch.team_allowed(2900 * ms));  // never longer than 1 s
  watch.ended(3200 * ms, ms / 10, ms / 100);
  watch.ended(3210 * ms, 0, 5 * ms);
  EXPECT_TRUE(watch.team_allowed(3260 * ms));
}

// A caller that others took the core from has worked for long by the clock.
TEST(crowd, a_preempted_caller_does_not_hide_a_long_wait) {
  crowd_watch watch;
  watch.ended(100 * ms, 20 * ms, 3 * ms, false);
  EXPECT_EQ(watch.pauses(), 0);
  watch.ended(100 * ms, 20 * ms, 3 * ms, true);
  EXPECT_EQ(watch.pauses(), 1);
}

TEST(crowd, a_limit_of_elements_holds_as_written) {
  constexpr team_limit limit{1024};
  EXPECT_TRUE(1025 > limit);
  EXPECT_FALSE(1024 > limit);
  EXPECT_TRUE(257 > limit / 4);
  EXPECT_FALSE(2048 > 2 * limit);
}

}  // namespace
}  // namespace unmask::cpu
