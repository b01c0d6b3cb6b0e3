// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/rows/row_table.h"
#include "harness/rows/text_table.h"
#include "tests/harness/rows/rows.h"

namespace unmask {
namespace {

using namespace fixtures;

TEST(row_table, the_latest_row_of_a_point_counts_in_the_order_of_the_plan) {
  result_row late = row_of("late", {1.0}), early = row_of("early", {1.0});
  late.position = 2;
  early.position = 1;
  result_row again = late;
  again.verdict = row_verdict::failed;
  const row_table rows(std::vector{late, early, again});
  ASSERT_EQ(rows.rows().size(), 2u);
  EXPECT_EQ(rows.rows()[0].label, "early");
  EXPECT_EQ(rows.rows()[1].verdict, row_verdict::failed);
  ASSERT_EQ(rows.reportable().size(), 1u);
  EXPECT_EQ(rows.reportable()[0]->label, "early");
}

TEST(row_table, rows_are_grouped_by_their_circumstances) {
  const row_table rows(
      std::vector{row_of("a", {1.0}, 1), row_of("b", {1.0}, 1), row_of("a", {1.0}, 8)});
  const auto groups =
      grouped(rows.all(), [](const result_row& r) { return circumstance_of(r, {}); });
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].size(), 2u);
}

TEST(row_table, variations_are_read_as_the_plan_writes_them) {
  result_row row = row_of("a", {1.0});
  row.variation = "params.steps=4 batch_size=2";
  EXPECT_EQ(name_of_row(row), "a params.steps=4 batch_size=2");
  EXPECT_EQ(name_of_row(row, {"batch_size"}), "a params.steps=4");
  EXPECT_EQ(variation_of(row)[1], std::pair(std::string("batch_size"), std::string("2")));
}

TEST(text_table, every_format_escapes_its_own_signs) {
  text_table t{"na|me", ">x_y"};
  t.title = "50 % & more";
  table_cell cell = number_cell(1.5, 2, 1, interval{1.25, 1.75});
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

}  // namespace

}  // namespace unmask
