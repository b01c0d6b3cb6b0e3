// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/analysis/figure_data.h"
#include "harness/analysis/frame.h"
#include "harness/analysis/text_table.h"
#include "harness/analysis/verdict.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

TEST(frame, the_latest_row_of_a_point_counts_in_the_order_of_the_plan) {
  result_row late = row_of("late", {1.0}), early = row_of("early", {1.0});
  late.position = 2;
  early.position = 1;
  result_row again = late;
  again.verdict = verdict_kind::failed;
  const frame rows(std::vector{late, early, again});
  ASSERT_EQ(rows.rows().size(), 2u);
  EXPECT_EQ(rows.rows()[0].label, "early");
  EXPECT_EQ(rows.rows()[1].verdict, verdict_kind::failed);
  ASSERT_EQ(rows.reportable().size(), 1u);
  EXPECT_EQ(rows.reportable()[0]->label, "early");
}

TEST(frame, groups_and_partners) {
  const frame rows(
      std::vector{row_of("a", {1.0}, 1), row_of("b", {1.0}, 1), row_of("a", {1.0}, 8)});
  const auto groups =
      grouped(rows.all(), [](const result_row& r) { return circumstance_of(r, {}); });
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].size(), 2u);
  const result_row& b = rows.rows()[1];
  EXPECT_EQ(partners_of(b, rows.all(), {}).size(), 1u);
  // A key that is free is free only as far as it must be.
  EXPECT_EQ(partners_of(b, rows.all(), {"batch_size"}).size(), 1u);
}

TEST(frame, variations_are_read_as_the_plan_writes_them) {
  result_row row = row_of("a", {1.0});
  row.variation = "params.steps=4 batch_size=2";
  EXPECT_EQ(name_of_row(row), "a params.steps=4 batch_size=2");
  EXPECT_EQ(name_of_row(row, {"batch_size"}), "a params.steps=4");
  EXPECT_EQ(variation_of(row)[1], std::pair(std::string("batch_size"), std::string("2")));
}

TEST(verdicts, the_whole_interval_decides) {
  EXPECT_EQ(judge({1.1, 1.2}, {.low = 1, .open = true}), finding::held);
  EXPECT_EQ(judge({1.0, 1.2}, {.low = 1, .open = true}), finding::undecided);
  EXPECT_EQ(judge({0.8, 1.0}, {.low = 1, .open = true}), finding::failed);
  EXPECT_EQ(judge({0.8, 1.0}, {.low = 1}), finding::undecided);
  EXPECT_EQ(judge({2.0, 2.0}, {2, 2}), finding::held);
  EXPECT_EQ(judge({2.5, 3.0}, {1, 2}), finding::failed);
  EXPECT_STREQ(tone_of("NOT REPRODUCED"), "bad");
  EXPECT_STREQ(tone_of(name_of(verdict::reproduced_model)), "good");
  EXPECT_STREQ(tone_of("NOT_VERIFIED"), "mid");
}

TEST(text_table, every_format_escapes_its_own_signs) {
  text_table t{"na|me", ">x_y"};
  t.title = "50 % & more";
  table_cell cell = number_cell(estimate{1.5, interval{1.25, 1.75}, 3, "", ""}, 2);
  cell.bold = cell.dagger = true;
  t.add({"a|b,\"c\"", cell});
  t.add({"", number_cell(std::nullopt, 1)});
  t.notes = {"a note"};
  EXPECT_EQ(
      render(t, table_format::md),
      "**50 % & more**\n\n| na\\|me | x_y |\n|---|---:|\n| a\\|b,\"c\" | **1.50** [1.25, 1.75] † "
      "|\n| | – |\n\na note\n");
  EXPECT_EQ(render(t, table_format::csv), "na|me,x_y\n\"a|b,\"\"c\"\"\",1.50\n,–\n");
  const std::string latex = render(t, table_format::latex);
  EXPECT_TRUE(has(latex, "50 \\% \\& more")) << latex;
  EXPECT_TRUE(has(latex, "\\textbf{1.50} {\\scriptsize[1.25, 1.75]}$^\\dagger$")) << latex;
  EXPECT_TRUE(has(latex, "x\\_y")) << latex;
  const auto json = nlohmann::json::parse(render(t, table_format::json));
  EXPECT_EQ(json["columns"][1]["right"], true);
  EXPECT_EQ(json["rows"][0][1]["value"], 1.5);
  EXPECT_EQ(json["rows"][0][1]["high"], 1.75);
  EXPECT_FALSE(json["rows"][1][1].contains("value"));
}

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
