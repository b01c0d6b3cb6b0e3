// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/profile/kernel_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace unmask {
namespace {

constexpr std::int64_t us = 1000;

// Two layers of two phases; attention launches two kernels, feed_forward one; one stray copy.
activity_records small_run() {
  activity_records r;
  r.instances = {{1, profile_phase::step, 0},
                 {2, profile_phase::attention, 0},
                 {3, profile_phase::feed_forward, 0},
                 {4, profile_phase::attention, 1},
                 {5, profile_phase::feed_forward, 1}};
  r.externals = {{100, 2}, {101, 2}, {102, 3}, {103, 4}, {104, 4}, {105, 5}};
  r.kernels = {{"attend", 10 * us, 30 * us, 100, 0, 7, 0},
               {"merge", 30 * us, 35 * us, 101, 0, 7, 0},
               {"gemm", 40 * us, 100 * us, 102, 0, 7, 0},
               {"attend", 110 * us, 120 * us, 103, 0, 7, 0},
               {"merge", 120 * us, 125 * us, 104, 0, 7, 0},
               {"gemm", 130 * us, 200 * us, 105, 0, 7, 0},
               {"[memcpy DtoH]", 210 * us, 220 * us, 999, 0, 8, 0}};
  return r;
}

const kernel_row* find(const kernel_table& t, const std::string& kernel) {
  const auto found = std::find_if(t.rows.begin(), t.rows.end(),
                                  [&](const kernel_row& r) { return r.kernel == kernel; });
  return found == t.rows.end() ? nullptr : &*found;
}

double sum_of(const kernel_table& t) {
  double sum = 0;
  for (const kernel_row& r : t.rows) sum += r.seconds;
  return sum;
}

TEST(correlate, kernels_go_to_the_phase_that_launched_them) {
  const kernel_table t = correlate(small_run());
  EXPECT_EQ(t.problem, "");
  EXPECT_EQ(t.launches, 7);
  ASSERT_EQ(t.rows.size(), 4U);
  EXPECT_EQ(t.rows[0].kernel, "attend");  // attention before feed_forward, the longest first
  EXPECT_EQ(t.rows[0].phase, profile_phase::attention);
  EXPECT_EQ(t.rows[0].launches, 2);
  EXPECT_NEAR(t.rows[0].seconds, 30e-6, 1e-12);
  EXPECT_NEAR(t.rows[0].shortest, 10e-6, 1e-12);
  EXPECT_NEAR(t.rows[0].longest, 20e-6, 1e-12);
  EXPECT_EQ(t.rows[1].kernel, "merge");
  EXPECT_EQ(t.rows[2].phase, profile_phase::feed_forward);
  EXPECT_NEAR(t.rows[2].seconds, 130e-6, 1e-12);
  EXPECT_FALSE(t.rows[3].attributed);
  EXPECT_NEAR(t.unattributed_seconds, 10e-6, 1e-12);
  EXPECT_NEAR(sum_of(t), t.seconds, 1e-12);
  EXPECT_NEAR(t.busy, 180e-6, 1e-12);
  EXPECT_NEAR(t.span, 210e-6, 1e-12);
}

TEST(correlate, the_order_of_the_records_changes_nothing) {
  const kernel_table in_order = correlate(small_run());
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    activity_records r = small_run();
    std::shuffle(r.kernels.begin(), r.kernels.end(), random);
    std::shuffle(r.externals.begin(), r.externals.end(), random);
    std::shuffle(r.instances.begin(), r.instances.end(), random);
    const kernel_table t = correlate(r);
    ASSERT_EQ(t.rows.size(), in_order.rows.size());
    for (std::size_t k = 0; k < t.rows.size(); ++k) {
      EXPECT_EQ(t.rows[k].kernel, in_order.rows[k].kernel);
      EXPECT_EQ(t.rows[k].launches, in_order.rows[k].launches);
      EXPECT_NEAR(t.rows[k].seconds, in_order.rows[k].seconds, 1e-12);
      EXPECT_EQ(t.rows[k].attributed, in_order.rows[k].attributed);
    }
    EXPECT_NEAR(t.busy, in_order.busy, 1e-12);
  }
}

TEST(correlate, dropped_records_make_the_table_unbelievable) {
  activity_records r = small_run();
  r.dropped = 3;
  EXPECT_EQ(correlate(r).problem, "3 records were dropped");
}

TEST(correlate, an_empty_trace_is_a_problem) {
  EXPECT_EQ(correlate({}).problem, "no kernel was recorded");
}

TEST(correlate, kernels_without_a_correlation_or_with_an_unknown_phase_stay_unattributed) {
  activity_records r = small_run();
  r.externals.erase(r.externals.begin());      // of the first attend
  r.instances.erase(r.instances.begin() + 2);  // the first feed_forward
  const kernel_table t = correlate(r);
  EXPECT_EQ(t.problem, "");
  EXPECT_NEAR(t.unattributed_seconds, (20 + 60 + 10) * 1e-6, 1e-12);
  EXPECT_NEAR(sum_of(t), t.seconds, 1e-12);
}

TEST(correlate, a_kernel_without_a_valid_time_is_counted_but_not_added) {
  activity_records r = small_run();
  r.kernels[0].begin = r.kernels[0].end = 0;
  r.kernels[2].end = r.kernels[2].begin - 1;
  const kernel_table t = correlate(r);
  EXPECT_EQ(t.without_time, 2);
  EXPECT_EQ(t.launches, 7);
  EXPECT_EQ(t.problem, "2 of 7 launches have no valid time");
  EXPECT_EQ(find(t, "attend")->launches, 2);
  EXPECT_NEAR(find(t, "attend")->seconds, 10e-6, 1e-12);
}

TEST(correlate, of_nested_phases_the_innermost_counts) {
  activity_records r = small_run();
  r.externals.push_back({100, 1});  // the step around it
  const kernel_table t = correlate(r);
  EXPECT_EQ(find(t, "attend")->phase, profile_phase::attention);
  EXPECT_EQ(find(t, "attend")->launches, 2);
}

TEST(correlate, graph_kernels_go_to_the_phase_that_captured_their_node) {
  activity_records r;
  r.instances = {{1, profile_phase::step, 0},
                 {2, profile_phase::attention, 0},
                 {3, profile_phase::feed_forward, 0}};
  r.nodes = {{70, 2}, {71, 3}};
  r.externals = {{500, 1}, {501, 1}};  // both launches of the graph, from the step
  for (const std::uint32_t launch : {500U, 501U}) {
    const std::int64_t t = launch == 500 ? 0 : 100 * us;
    r.kernels.push_back({"attend", t + 10 * us, t + 20 * us, launch, 0, 7, 70});
    r.kernels.push_back({"gemm", t + 20 * us, t + 50 * us, launch, 0, 7, 71});
  }
  r.kernels.push_back({"unknown node", 300 * us, 301 * us, 501, 0, 7, 99});
  const kernel_table t = correlate(r);
  EXPECT_EQ(find(t, "attend")->phase, profile_phase::attention);
  EXPECT_EQ(find(t, "attend")->launches, 2);
  EXPECT_EQ(find(t, "gemm")->phase, profile_phase::feed_forward);
  EXPECT_FALSE(find(t, "unknown node")->attributed);
}

TEST(correlate, streams_that_overlap_are_busy_once) {
  activity_records r;
  r.kernels = {{"a", 10 * us, 40 * us, 1, 0, 1, 0},
               {"b", 20 * us, 30 * us, 2, 0, 2, 0},
               {"c", 35 * us, 60 * us, 3, 0, 2, 0}};
  const kernel_table t = correlate(r);
  EXPECT_NEAR(t.seconds, 65e-6, 1e-12);
  EXPECT_NEAR(t.busy, 50e-6, 1e-12);
  EXPECT_NEAR(t.span, 50e-6, 1e-12);
}

TEST(slices, carry_the_phase_and_the_shift_and_leave_out_what_has_no_time) {
  activity_records r = small_run();
  r.kernels[1].begin = r.kernels[1].end = 0;
  const std::vector<device_slice> slices = slices_of(r, -5 * us);
  ASSERT_EQ(slices.size(), 6U);
  EXPECT_EQ(slices.front().begin, 5 * us);
  EXPECT_EQ(slices.front().end, 25 * us);
  EXPECT_TRUE(slices.front().attributed);
  EXPECT_EQ(slices.front().phase, profile_phase::attention);
  EXPECT_FALSE(slices.back().attributed);
}

}  // namespace
}  // namespace unmask
