// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/analysis/figure_data.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

// 100 tokens in so many seconds, so many of 10 items right.
result_row answered(const std::string& label, double seconds, int right,
                    const std::string& task = "word_problem") {
  result_row row = row_of(label, {seconds, seconds}, 1, task);
  row.score->mean = right / 10.0;
  row.score->n = 10;
  return row;
}

TEST(figure_data, the_front_keeps_what_nothing_beats) {
  const auto data = figure_data(std::vector{
      answered("slow good", 10, 9), answered("fast bad", 1, 1), answered("beaten", 10, 8),
      answered("mid", 2, 5), answered("same", 2, 5), answered("worse", 3, 5)});
  std::vector<std::string> front;
  for (const auto& p : data["pooled"]) {
    if (p["workload"].is_null() && p["front"]) front.push_back(p["series"]);
  }
  EXPECT_EQ(front, (std::vector<std::string>{"slow good", "fast bad", "mid", "same"}));
}

TEST(figure_data, methods_are_pooled_over_tasks) {
  const auto data = figure_data(std::vector{answered("a", 1, 4), answered("a", 3, 8, "needle")});
  ASSERT_EQ(data["pooled"].size(), 3u);  // together, and each task
  EXPECT_DOUBLE_EQ(data["pooled"][0]["tokens_per_second"], 50);
  EXPECT_DOUBLE_EQ(data["pooled"][0]["score"], 0.6);
  EXPECT_EQ(data["pooled"][0]["n"], 20);
  EXPECT_EQ(data["pooled"][2]["workload"], "needle");
}

TEST(figure_data, a_sweep_takes_three_values_with_all_else_equal) {
  std::vector<result_row> rows;
  for (const char* value : {"0.1", "0.5", "0.9"}) {
    rows.push_back(answered("sparse", 1, 5));
    rows.back().variation = std::string("kernel=3 ratio=") + value;
    rows.back().point_id = value;
  }
  EXPECT_TRUE(figure_data(std::vector{rows[0], rows[1]})["sweeps"].empty());
  const auto sweeps = figure_data(rows)["sweeps"];
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0]["axis"], "ratio");
  ASSERT_EQ(sweeps[0]["lines"].size(), 1u);
  EXPECT_EQ(sweeps[0]["lines"][0]["name"], "sparse");
  EXPECT_EQ(sweeps[0]["lines"][0]["points"][2]["x"], 0.9);
}

TEST(figure_data, rows_that_may_not_be_reported_are_in_no_figure) {
  result_row broken = answered("broken", 1, 5);
  broken.verdict = verdict_kind::invalid;
  const auto data = figure_data(std::vector{answered("a", 1, 5), broken});
  EXPECT_EQ(data["rows"].size(), 2u);
  EXPECT_EQ(data["rows"][1]["reportable"], false);
  EXPECT_EQ(data["pooled"].size(), 2u);  // of one method: together, and its task
}

}  // namespace
}  // namespace unmask
