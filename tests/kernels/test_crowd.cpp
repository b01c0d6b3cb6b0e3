// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "kernels/cpu/crowd.h"

namespace unmask::cpu {
namespace {

constexpr std::int64_t ms = 1'000'000;

bool crowded() {
  return true;
}
bool calm() {
  return false;
}

TEST(crowd, short_waits_and_those_of_large_products_keep_the_team) {
  crowd_watch watch;
  watch.ended(10 * ms, ms / 10, ms - 1);  // long for its work, but short
  watch.ended(20 * ms, 9 * ms, 4 * ms);   // the last piece of a large product
  EXPECT_TRUE(watch.team_allowed(20 * ms, calm));
  EXPECT_EQ(watch.pauses(), 0);
}

TEST(crowd, a_long_wait_sends_the_team_away_and_it_comes_back) {
  crowd_watch watch;
  watch.ended(100 * ms, ms / 10, 3 * ms);
  EXPECT_FALSE(watch.team_allowed(100 * ms, calm));
  EXPECT_FALSE(watch.team_allowed(149 * ms, calm));
  EXPECT_TRUE(watch.team_allowed(150 * ms, calm));
  EXPECT_EQ(watch.pauses(), 1);
}

// On cores that others hold, looking costs a long wait each time.
TEST(crowd, looks_become_rare_while_waits_stay_long) {
  crowd_watch watch;
  std::int64_t now = 0;
  int looks = 0;
  while (now < 10'000 * ms) {
    now += ms;
    if (!watch.team_allowed(now, calm)) continue;
    now += 12 * ms;
    watch.ended(now, ms / 10, 12 * ms);
    ++looks;
  }
  EXPECT_LE(looks, 14);
  EXPECT_GE(looks, 9);
}

// The kernel is asked before the first team and behind each pause, and not in between.
TEST(crowd, no_team_starts_while_others_want_the_cores) {
  crowd_watch watch;
  EXPECT_FALSE(watch.team_allowed(0, crowded));
  EXPECT_FALSE(watch.team_allowed(49 * ms, calm));
  EXPECT_FALSE(watch.team_allowed(50 * ms, crowded));
  EXPECT_TRUE(watch.team_allowed(100 * ms, calm));
  EXPECT_TRUE(watch.team_allowed(101 * ms, crowded));
  watch.ended(110 * ms, ms / 10, 3 * ms);
  EXPECT_FALSE(watch.team_allowed(160 * ms, crowded));
  EXPECT_TRUE(watch.team_allowed(210 * ms, calm));
  EXPECT_EQ(watch.pauses(), 1);
}

TEST(crowd, after_calm_time_a_single_long_wait_costs_little) {
  crowd_watch watch;
  for (const std::int64_t at : {0 * ms, 100 * ms, 1000 * ms}) watch.ended(at, 0, 5 * ms);
  EXPECT_FALSE(watch.team_allowed(1799 * ms, calm));  // 50, 200, 800 ms
  EXPECT_TRUE(watch.team_allowed(1800 * ms, calm));
  watch.ended(1850 * ms, ms / 10, ms / 100);  // not calm for long enough
  watch.ended(1900 * ms, 0, 5 * ms);
  EXPECT_FALSE(watch.team_allowed(2899 * ms, calm));
  EXPECT_TRUE(watch.team_allowed(2900 * ms, calm));  // never longer than 1 s
  watch.ended(3200 * ms, ms / 10, ms / 100);
  watch.ended(3210 * ms, 0, 5 * ms);
  EXPECT_TRUE(watch.team_allowed(3260 * ms, calm));
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
  EXPECT_FALSE(1024 > limit);
  EXPECT_EQ((limit / 4).elements, 256);
  EXPECT_EQ((2 * limit).elements, 2048);
}

}  // namespace
}  // namespace unmask::cpu
