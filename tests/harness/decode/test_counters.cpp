// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "harness/decode/counters.h"

namespace unmask {
namespace {

TEST(counters, the_list_is_the_whole_of_the_struct) {
  // Every member is eight bytes wide, so a member that the list forgets shows.
  EXPECT_EQ(sizeof(sequence_counters), 8 * counter_list().size());
  std::set<std::string> names;
  for (const counter_spec& c : counter_list()) names.insert(c.metric);
  EXPECT_EQ(names.size(), counter_list().size());
  for (const counter_spec& c : counter_list()) {
    EXPECT_TRUE(std::string(c.whole).empty() || names.contains(c.whole)) << c.whole;
    EXPECT_NE(std::string(c.unit), "") << c.metric;
    EXPECT_NE(std::string(c.meaning), "") << c.metric;
  }
}

TEST(counters, sums_are_of_every_counter) {
  sequence_counters one, sum;
  double count = 1;
  for (const counter_spec& c : counter_list()) {
    std::visit(
        [&](const auto member) {
          one.*member = static_cast<std::remove_reference_t<decltype(one.*member)>>(count++);
        },
        c.field);
  }
  add_counters(sum, one);
  add_counters(sum, one);
  count = 1;
  for (const counter_spec& c : counter_list()) EXPECT_EQ(c.of(sum), 2 * count++) << c.metric;
}

TEST(counters, what_cannot_be_is_named) {
  EXPECT_EQ(broken_counters({}), "");
  sequence_counters c;
  c.rows = 4;
  c.decode_rows = 5;
  EXPECT_EQ(broken_counters(c), "decode_rows is 5, more than the 4 of rows that it is a part of");
  c.decode_rows = -1;
  EXPECT_EQ(broken_counters(c), "decode_rows is negative");
  c.decode_rows = 4;
  c.flops = std::nan("");
  EXPECT_EQ(broken_counters(c), "flops is not finite");
}

// 4 positions of 6 decisions, two of which were taken back: 6 may have been early, 7 not.
TEST(counters, a_token_that_was_taken_back_was_decided_all_the_same) {
  sequence_counters c;
  c.head_rows = 10;
  c.committed = 4;
  c.decided_early = 6;
  EXPECT_EQ(broken_counters(c),
            "decided_early is 6, more than the 4 of committed that it is a part of");
  c.reopened = 2;
  EXPECT_EQ(broken_counters(c), "");
  c.decided_early = 7;
  EXPECT_EQ(broken_counters(c),
            "decided_early is 7, more than the 6 of committed and reopened that it is a part of");
}

}  // namespace
}  // namespace unmask
