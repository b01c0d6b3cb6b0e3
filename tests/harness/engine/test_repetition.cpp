// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The end of an answer that repeats itself, on sequences made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "harness/engine/loop_runner.h"

namespace unmask {
namespace {

using ids = std::vector<std::int32_t>;

// Distinct tokens from `first` on.
ids text(std::int32_t first, int count) {
  ids all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

ids operator+(ids left, const ids& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// Tokens up to and with the first at which the answer ends; 0: it does not.
int end_of(const ids& tokens, std::int32_t window) {
  repetition_watch watch(window);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (watch.add(tokens[i])) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(repetition, the_third_of_three_ends_the_answer) {
  const ids before = text(1000, 100);
  for (const int b : {8, 9, 31, 32}) {
    const ids once = text(0, b);
    const ids thrice = before + once + once + once;
    EXPECT_EQ(end_of(thrice, 32), 100 + 3 * b) << b;
    // What comes behind is not looked at.
    EXPECT_EQ(end_of(thrice + text(500, 40), 32), 100 + 3 * b) << b;
    // One token short, one wrong token, and twice only.
    EXPECT_EQ(end_of({thrice.begin(), thrice.end() - 1}, 32), 0) << b;
    ids wrong = thrice;
    wrong[static_cast<std::size_t>(100 + b)] = 999;
    EXPECT_EQ(end_of(wrong, 32), 0) << b;
    EXPECT_EQ(end_of(before + once + once + text(500, 200), 32), 0) << b;
  }
}

TEST(repetition, longer_than_the_window_goes_on) {
  const ids once = text(0, 33);
  EXPECT_EQ(end_of(once + once + once, 32), 0);
  EXPECT_EQ(end_of(once + once + once, 33), 99);
  EXPECT_EQ(end_of(text(0, 8) + text(0, 8) + text(0, 8), 0), 0);
}

// Short periods count from 24 tokens on only as parts of 8 and more: 3 x 8 tokens of period 1, 2, 4
// and 8; 3 x 9 of period 3; 3 x 10 of period 5.
TEST(repetition, short_periods_take_stretches_of_eight) {
  const ids before = text(1000, 100);
  const auto of_period = [&](int period) {
    ids all = before;
    for (int i = 0; i < 60; ++i) all.push_back(i % period);
    return end_of(all, 32) - 100;
  };
  EXPECT_EQ(of_period(1), 24);
  EXPECT_EQ(of_period(2), 24);
  EXPECT_EQ(of_period(3), 27);
  EXPECT_EQ(of_period(4), 24);
  EXPECT_EQ(of_period(5), 30);
  EXPECT_EQ(of_period(8), 24);
}

TEST(repetition, the_first_23_tokens_end_on_anything) {
  EXPECT_EQ(end_of({7, 7, 7, 1}, 32), 3);
  EXPECT_EQ(end_of(ids{1} + ids{7, 7, 7}, 32), 4);
  EXPECT_EQ(end_of(text(100, 20) + ids{7, 7, 7}, 32), 23);
  EXPECT_EQ(end_of(text(100, 21) + ids{7, 7, 7} + text(200, 9), 32), 0);
  EXPECT_EQ(end_of({1, 2, 1, 2, 1, 2}, 32), 6);
  EXPECT_EQ(end_of({1, 2, 1, 2, 1, 3}, 32), 0);
  // A window below 8 is never passed by n / 3: all its stretches count anywhere.
  EXPECT_EQ(end_of(text(100, 50) + ids{7, 7, 7}, 4), 53);
  EXPECT_EQ(end_of(text(100, 50) + ids{1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5}, 4), 0);
}

// The released rule, stretch by stretch, on texts of few words.
TEST(repetition, equals_the_rule_as_it_is_written) {
  std::uint32_t state = 1;
  const auto next = [&] { return (state = state * 1664525U + 1013904223U) >> 24; };
  int ended = 0;
  for (int trial = 0; trial < 400; ++trial) {
    ids tokens;
    const auto period = static_cast<std::size_t>(1 + next() % 40);
    for (std::size_t i = 0; i < 140; ++i) {
      const bool again = i >= period && next() % 64 != 0;
      tokens.push_back(again ? tokens[i - period] : static_cast<std::int32_t>(next() % 50));
    }
    int wanted = 0;
    for (int n = 1; n <= 140 && wanted == 0; ++n) {
      const int longest = std::min(32, n / 3);
      for (int b = longest; b >= (longest < 8 ? 1 : 8) && b > 0; --b) {
        const auto last = tokens.begin() + n;
        if (std::equal(last - b, last, last - 2 * b) && std::equal(last - b, last, last - 3 * b)) {
          wanted = n;
        }
      }
    }
    EXPECT_EQ(end_of(tokens, 32), wanted) << trial;
    ended += wanted > 0;
  }
  EXPECT_GT(ended, 50);
  EXPECT_LT(ended, 350);
}

}  // namespace
}  // namespace unmask
