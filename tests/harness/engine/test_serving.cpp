// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/serving.h"

#include <gtest/gtest.h>

#include "tests/harness/engine/support.h"

namespace unmask {
namespace {

using namespace testing_engine;

// Arrival 1, admitted 2, prefill done 3, blocks of 32 at 5 and 9, the rest of 80 tokens at 11.
request_record example() {
  request_record r;
  r.arrival = 1;
  r.admitted = 2;
  r.prefill_done = 3;
  r.finish = 11;
  r.emissions = {{5, 32}, {9, 64}, {11, 80}};
  r.answer.output.assign(80, 0);
  return r;
}

TEST(serving, definitions_by_hand) {
  const request_record r = example();
  EXPECT_DOUBLE_EQ(tpot_of(r, tpot_definition::stream), 6.0 / 79);
  EXPECT_DOUBLE_EQ(tpot_of(r, tpot_definition::decode), 8.0 / 80);
  EXPECT_DOUBLE_EQ(tpot_of(r, tpot_definition::e2e), 10.0 / 80);
  EXPECT_EQ(ttfb_of(r), 4);
  EXPECT_EQ(queue_time_of(r), 1);
  EXPECT_EQ(e2e_of(r), 10);
  std::vector<double> gaps;
  inter_block_of(r, gaps);
  EXPECT_EQ(gaps, (std::vector<double>{4, 2}));
}

TEST(serving, what_did_not_happen_has_no_time) {
  request_record r = example();
  r.answer.output.clear();
  EXPECT_TRUE(std::isnan(tpot_of(r, tpot_definition::decode)));
  r = example();
  r.end = outcome::cancelled;
  EXPECT_TRUE(std::isnan(tpot_of(r, tpot_definition::e2e)));
  r.emissions.clear();
  EXPECT_TRUE(std::isnan(ttfb_of(r)));
  // One token: a stream has no interval.
  r = example();
  r.answer.output.resize(1);
  EXPECT_TRUE(std::isnan(tpot_of(r, tpot_definition::stream)));
  EXPECT_EQ(parse_tpot("e2e"), tpot_definition::e2e);
  EXPECT_THROW(parse_tpot("end"), error);
}

// One place, one second of service: two requests per second pile up, one in two seconds does not.
TEST(serving, backlog_grows_past_capacity_only) {
  for (const double gap : {0.5, 2.0}) {
    scripted_case c;
    c.places = 1;
    c.shape = {1, 1, false};
    c.scripts.assign(60, {0, {1}});
    for (int i = 0; i < 60; ++i) c.arrivals.push_back(gap * i);
    const collector seen = run(c, std::make_shared<constant>(1));
    const backlog b = backlog_of(seen.requests);
    EXPECT_EQ(b.growing, gap < 1);
    if (gap > 1) {
      EXPECT_NEAR(b.last, 0.5, 0.05);
    }
  }
}

}  // namespace
}  // namespace unmask
