// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/analysis/compare.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

TEST(comparison, repeated_runs_agree_in_all_but_their_clock) {
  std::vector<result_row> before = {row_of("slow", {2.0, 2.02, 1.98}),
                                    row_of("fast", {1.0, 1.01, 0.99})};
  before[1].position = 1;
  for (result_row& row : before) row.answers_hash = "abc";
  std::vector<result_row> after = before;
  for (result_row& row : after) {  // a machine three times as fast
    for (double& s : row.samples.seconds) s /= 3;
    row.metrics["tokens_per_second"].value *= 3;
    row.run_id = "later";
  }
  const run_comparison same = compare_runs(before, after);
  EXPECT_TRUE(same.same()) << comparison_text(same);
  EXPECT_EQ(same.points, 2u);
  EXPECT_EQ(same.same_tokens, 2u);
  EXPECT_EQ(same.ratios, 1u);
  EXPECT_TRUE(has(comparison_text(same), "REPEATED"));

  after[0].answers_hash = "other";
  after[0].metrics["redundancy"].value = 5;
  for (double& s : after[1].samples.seconds) s *= 2;
  after[1].metrics["tokens_per_second"].value /= 2;
  after.pop_back();
  after.push_back(row_of("third", {1.0}));
  const run_comparison lost = compare_runs(before, after);
  EXPECT_EQ(lost.differences.size(), 4u) << comparison_text(lost);  // answers, redundancy, two rows
  after = before;
  for (double& s : after[1].samples.seconds) s *= 2;
  after[1].metrics["tokens_per_second"].value /= 2;
  const run_comparison slower = compare_runs(before, after);
  ASSERT_EQ(slower.speeds_apart.size(), 1u) << comparison_text(slower);
  EXPECT_EQ(slower.speeds_apart[0].what, "speed over slow");
  EXPECT_FALSE(slower.same());
  EXPECT_TRUE(has(comparison_text(slower), "more than chance"));

  const run_comparison elsewhere = compare_runs(before, after, compared_speeds::none);
  EXPECT_TRUE(elsewhere.same());
  EXPECT_EQ(elsewhere.ratios, 0u);
  EXPECT_TRUE(has(comparison_text(elsewhere), "speeds were not compared"));
  after[0].answers_hash = "other";
  EXPECT_FALSE(compare_runs(before, after, compared_speeds::none).same());
}

TEST(comparison, a_point_that_calibrates_itself_is_held_to_its_score) {
  std::vector<result_row> before = {row_of("elastic", {1.0, 1.1})};
  before[0].calibration = "{}";
  std::vector<result_row> after = before;
  after[0].metrics["redundancy"].value = 9;
  EXPECT_TRUE(compare_runs(before, after).same());
  EXPECT_FALSE(compare_runs(before, after).notes.empty());
  EXPECT_EQ(compare_runs(before, after).calibrated, 1u);
  before[0].score = score_record{0.9, 90, 100, 0.83, 0.95};
  after[0].score = score_record{0.86, 86, 100, 0.78, 0.92};
  EXPECT_TRUE(compare_runs(before, after).same());  // four points of a hundred items are noise
  after[0].score->mean = 0.4;
  EXPECT_FALSE(compare_runs(before, after).same());
}

// Where many ratios are compared, a few are apart by chance; one of five, or a tenth of them, is
// not.
TEST(comparison, chance_explains_few_ratios_apart) {
  EXPECT_EQ(chance_of_apart(100, 0), 1);
  EXPECT_NEAR(chance_of_apart(1, 1), 0.0056, 1e-12);
  EXPECT_NEAR(chance_of_apart(2, 1), 1 - 0.9944 * 0.9944, 1e-12);
  EXPECT_NEAR(chance_of_apart(2, 2), 0.0056 * 0.0056, 1e-12);
  EXPECT_LT(chance_of_apart(5, 1), 0.05);
  EXPECT_GT(chance_of_apart(336, 2), 0.05);
  EXPECT_LT(chance_of_apart(336, 34), 1e-9);
  EXPECT_GE(chance_of_apart(20000, 20000), 0);
}

// Among a hundred equal ratios one apart by a little is chance, one of three times the speed is
// not.
TEST(comparison, a_large_difference_is_not_chance_however_many_ratios_there_are) {
  std::vector<result_row> before;
  for (int i = 0; i < 100; ++i) {
    result_row row = row_of("m" + std::to_string(i), {1.0, i == 50 ? 1.02 : 1.01, 0.99});
    row.position = i;
    row.answers_hash = "abc";
    before.push_back(row);
  }
  const auto slower = [&](double factor) {
    std::vector<result_row> rows = before;
    for (double& s : rows[50].samples.seconds) s *= factor;
    return compare_runs(before, rows);
  };
  EXPECT_EQ(slower(1).ratios, 99u);
  EXPECT_TRUE(slower(1).speeds_apart.empty());
  // The interval of that ratio is 1.4 % to each side.
  EXPECT_EQ(slower(1.05).speeds_apart.size(), 1u);
  EXPECT_TRUE(slower(1.05).same()) << comparison_text(slower(1.05));
  EXPECT_EQ(slower(3).far_apart, 1u);
  EXPECT_FALSE(slower(3).same()) << comparison_text(slower(3));
}

TEST(comparison, campaigns_are_compared_place_by_place) {
  scratch_directory scratch;
  result_row row = row_of("fast", {1.0, 1.1});
  row.environment = "{}";
  row.answers_hash = "abc";
  const auto put = [&](const char* place, const result_row& what) {
    write(scratch / place, to_json_line(what) + "\n");
  };
  put("a/focus/table_5/tiny/rows.jsonl", row);
  put("b/focus/table_5/tiny/rows.jsonl", row);
  put("a/focus/table_6/tiny/rows.jsonl", row);
  put("b/focus/table_6/tiny/rows.jsonl", row);
  const run_comparison same = compare_paths(scratch / "a", scratch / "b");
  EXPECT_TRUE(same.same()) << comparison_text(same);
  EXPECT_EQ(same.points, 2u);
  EXPECT_EQ(same.same_tokens, 2u);

  row.answers_hash = "other";
  put("b/focus/table_6/tiny/rows.jsonl", row);
  put("b/focus/table_1/tiny/rows.jsonl", row);
  const run_comparison other = compare_paths(scratch / "a", scratch / "b");
  ASSERT_EQ(other.differences.size(), 2u) << comparison_text(other);
  EXPECT_TRUE(has(other.differences[0].point, "focus/table_6/tiny: "))
      << other.differences[0].point;
  EXPECT_EQ(other.differences[0].what, "answers");
  EXPECT_EQ(other.differences[1].point, "focus/table_1/tiny/rows.jsonl");

  EXPECT_TRUE(compare_paths(scratch / "a/focus/table_5/tiny/rows.jsonl",
                            scratch / "b/focus/table_5/tiny/rows.jsonl")
                  .same());
  EXPECT_TRUE(has(message_of([&] { compare_paths(scratch / "a", scratch / "b/focus"); }),
                  "have no rows at the same place"));
}

}  // namespace
}  // namespace unmask
