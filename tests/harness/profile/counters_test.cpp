// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Counters without a GPU: the host side of CUPTI's profiler plans for every chip it knows.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/base/error.h"
#include "harness/profile/cupti_counters.h"
#include "harness/profile/cupti_trace.h"
#include "tests/support.h"

namespace unmask {
namespace {

counted_range range(const std::string& name, double value_of_each) {
  counted_range r{name, {}};
  for (const std::string& m : roofline_metrics()) r.values[m] = value_of_each;
  return r;
}

TEST(sum_ranges, adds_up_by_phase) {
  counted_range scalar{"attention#9", {}};
  scalar.values[scalar_metrics()[0]] = 1;
  scalar.values[scalar_metrics()[1]] = 10;
  scalar.values[scalar_metrics()[2]] = 100;
  const counter_table t = sum_ranges(
      "GH100",
      {range("attention#0", 4), range("feed_forward#1", 2), range("attention#2", 6), scalar}, 0, 0);
  EXPECT_EQ(t.problem, "");
  EXPECT_EQ(t.ranges, 4);
  ASSERT_EQ(t.phases.size(), 2U);
  EXPECT_EQ(t.phases[0].phase, profile_phase::attention);
  EXPECT_EQ(t.phases[0].ranges, 3);
  EXPECT_NEAR(t.phases[0].seconds, 10e-9, 1e-18);
  EXPECT_EQ(t.phases[0].bytes, 20);  // read and write
  EXPECT_EQ(t.phases[0].tensor_ops, 10);
  EXPECT_EQ(t.phases[0].scalar_ops, 1 + 10 + 2 * 100);
  // Peak per cycle times cycles per second, mean of the ranges that ran something.
  EXPECT_NEAR(t.peak_bytes_per_second, (16.0 + 4 + 36) / 3, 1e-9);
}

TEST(sum_ranges, what_is_wrong_becomes_a_problem) {
  EXPECT_EQ(sum_ranges("GH100", {}, 0, 0).problem, "no range was counted");
  EXPECT_EQ(sum_ranges("GH100", {range("attention#0", 1)}, 2, 0).problem, "2 ranges were dropped");
  EXPECT_NE(sum_ranges("GH100", {range("atention#0", 1)}, 0, 0).problem, "");
  counted_range bad = range("attention#0", 1);
  bad.values[roofline_metrics()[1]] = std::nan("");
  EXPECT_NE(sum_ranges("GH100", {bad}, 0, 0).problem, "");
}

#if UNMASK_HAS_CUPTI

class chip : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_cupti(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_P(chip, counts_what_the_roofline_needs_in_one_pass) {
  for (const auto* metrics : {&roofline_metrics(), &scalar_metrics()}) {
    const metric_plan plan = plan_metrics(GetParam(), *metrics);
    EXPECT_EQ(plan.passes, 1U);
    EXPECT_FALSE(plan.image.empty());
    EXPECT_EQ(plan.metrics, *metrics);
  }
}

TEST_P(chip, needs_two_passes_for_both_sets_together) {
  std::vector<std::string> both = roofline_metrics();
  both.insert(both.end(), scalar_metrics().begin(), scalar_metrics().end());
  EXPECT_GT(plan_metrics(GetParam(), both).passes, 1U);
}

TEST_P(chip, a_metric_that_does_not_exist_is_named) {
  const std::string said = test::message_of([] {
    plan_metrics(GetParam(), {"gpu__time_duration.sum", "dram__bites.sum"});
  });
  EXPECT_NE(said.find("dram__bites.sum"), std::string::npos) << said;
}

INSTANTIATE_TEST_SUITE_P(counters, chip, ::testing::Values("GA100", "GH100"),
                         [](const auto& test) { return std::string(test.param); });

TEST(counters, an_unknown_chip_is_named_and_known_ones_are_listed) {
  if (const std::string why = why_no_cupti(); !why.empty()) GTEST_SKIP() << why;
  EXPECT_THROW(plan_metrics("GX999", roofline_metrics()), error);
  const std::vector<std::string> chips = counter_chips();
  for (const char* name : {"GA100", "GH100"}) {
    EXPECT_NE(std::find(chips.begin(), chips.end(), name), chips.end()) << name;
  }
}

// Where there is a GPU this test says nothing; elsewhere the refusal must be a sentence.
TEST(counters, without_a_driver_tracing_and_counting_are_refused_in_words) {
  if (const std::string why = why_no_cupti(); !why.empty()) GTEST_SKIP() << why;
  try {
    count_ranges(roofline_metrics(), 16);
    GTEST_SKIP() << "there is a GPU";
  } catch (const error& problem) {
    EXPECT_GT(std::string(problem.what()).size(), 20U);
    EXPECT_EQ(problem.code(), exit_code::environment);
  }
  EXPECT_THROW(trace_kernels(nullptr), error);
}

#else

TEST(counters, a_build_without_cupti_says_so) {
  EXPECT_NE(why_no_cupti(), "");
  EXPECT_THROW(plan_metrics("GH100", roofline_metrics()), error);
  EXPECT_THROW(trace_kernels(nullptr), error);
  EXPECT_THROW(count_ranges(roofline_metrics(), 16), error);
}

#endif

}  // namespace
}  // namespace unmask
