// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/run/pass_use.h"

#include <gtest/gtest.h>

#include <cmath>

namespace unmask {
namespace {

// Two seconds on two processors.
machine_use used(double own_seconds, double other_seconds, double threads) {
  machine_use use;
  use.seconds = 2;
  use.own_seconds = own_seconds;
  use.other_seconds = other_seconds;
  use.processors = 2;
  use.threads = threads;
  return use;
}

// Rank 0 saw 1.9 of 4 processor seconds of its own and 2.0 of others, of which rank 1 had 1.8.
TEST(use_of_ranks, counts_other_ranks_of_the_machine_as_own_work) {
  pass_record pass;
  pass.use = used(1.9, 2.0, 1);
  EXPECT_NE(disturbance(pass.use, false), "");
  put_use_of_ranks(pass, {told_use({}, pass.use), told_use({}, used(1.8, 2.1, 1))});
  EXPECT_DOUBLE_EQ(pass.use.own_seconds, 3.7);
  EXPECT_NEAR(pass.use.other_seconds, 0.2, 1e-12);
  EXPECT_EQ(pass.use.threads, 2);
  EXPECT_NEAR(pass.use.own_share(), 0.925, 1e-12);
  EXPECT_NEAR(pass.use.other_share(), 0.05, 1e-12);
  EXPECT_EQ(disturbance(pass.use, false), "");
}

// What is no rank disturbs as before.
TEST(use_of_ranks, leaves_others_to_be_seen) {
  pass_record pass;
  pass.use = used(1.3, 2.6, 1);
  put_use_of_ranks(pass, {told_use({}, pass.use), told_use({}, used(1.3, 2.6, 1))});
  EXPECT_EQ(disturbance(pass.use, false),
            "other work on the machine took about 30 % of the processors");
}

// Processors of another machine are not those of rank 0, and time that nobody read is not known.
TEST(use_of_ranks, says_nothing_of_what_it_cannot_know) {
  pass_record pass;
  pass.use = used(1.9, 0.1, 2);
  const std::string here = told_use({}, pass.use);
  std::string elsewhere = told_use({}, used(1.8, 0.1, 2));
  const std::size_t id = elsewhere.find("\"machine\":\"") + 11;
  elsewhere.replace(id, elsewhere.find('"', id) - id, "another");
  put_use_of_ranks(pass, {here, elsewhere});
  EXPECT_DOUBLE_EQ(pass.use.own_seconds, 1.9);
  EXPECT_DOUBLE_EQ(pass.use.other_seconds, 0.1);
  put_use_of_ranks(pass, {here, told_use({}, used(std::nan(""), 0.1, 1))});
  EXPECT_TRUE(std::isnan(pass.use.own_seconds));
  EXPECT_TRUE(std::isnan(pass.use.other_seconds));
}

}  // namespace
}  // namespace unmask
