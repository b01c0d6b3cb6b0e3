// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/analysis/crossover.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

std::vector<result_row> sweep() {
  std::vector<result_row> rows = {
      row_of("vanilla", {1.0, 1.01, 0.99}, 1),       row_of("sparse", {2.0, 2.01, 1.99}, 1),
      row_of("vanilla", {4.0, 4.01, 3.99}, 8),       row_of("sparse", {2.0, 2.01, 1.99}, 8),
      row_of("vanilla", {4.0, 4.2, 3.8}, 1, "long"), row_of("sparse", {4.1, 3.9, 4.05}, 1, "long")};
  for (result_row& row : rows) {
    row.variation = "batch_size=" + std::to_string(row.run.batch_size);
    row.metrics["prompt_tokens"] = {row.workload.family == "long" ? 20000.0 : 500.0,
                                    origin::counted};
    row.metrics["selection_share"] = {row.label == "sparse" ? 0.12 : 0.0, origin::measured};
  }
  return rows;
}

TEST(crossover, the_winner_changes_with_the_batch) {
  const auto cells = crossover_cells(sweep(), {"vanilla"});
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[0].prompt_tokens, 50);
  EXPECT_EQ(cells[0].batch_size, 1);
  EXPECT_EQ(cells[0].methods[0].label, "vanilla");
  EXPECT_TRUE(cells[0].clear);
  EXPECT_NEAR(cells[0].margin->value, 2, 0.01);
  EXPECT_EQ(cells[1].methods[0].label, "sparse");
  EXPECT_NEAR(cells[1].methods[0].speedup->value, 2, 0.01);
  EXPECT_NEAR(*cells[1].methods[0].selection_share, 0.12, 1e-12);
  EXPECT_EQ(cells[2].prompt_tokens, 2000);
  EXPECT_FALSE(cells[2].clear);
  const std::string table = render(crossover_table(cells), table_format::md);
  EXPECT_TRUE(has(table, "| 12.00 % |")) << table;
  EXPECT_TRUE(has(table, "(not clear)"));
  EXPECT_TRUE(has(table, "3 cells; sparse wins 1, vanilla wins 1, 1 not clear")) << table;
}

// With eight requests the faster method wins while it answers 85 % against 90 %; with 30 % it is
// named, but does not win.
TEST(crossover, wrong_answers_do_not_win) {
  const auto scored = [](double sparse) {
    std::vector<result_row> rows = sweep();
    for (result_row& row : rows) {
      row.score = score_record{};
      row.score->mean = row.label == "vanilla" ? 0.9 : sparse;
    }
    return rows;
  };
  EXPECT_EQ(crossover_cells(scored(0.85), {"vanilla"})[1].methods[0].label, "sparse");
  EXPECT_EQ(crossover_cells(scored(0.85), {"vanilla", false, 0.01})[1].methods[0].label, "vanilla");
  const auto cells = crossover_cells(scored(0.3), {"vanilla"});
  EXPECT_EQ(cells[1].methods[0].label, "vanilla");
  EXPECT_FALSE(cells[1].methods[0].worse);
  EXPECT_TRUE(cells[1].methods[1].worse);
  EXPECT_FALSE(cells[1].margin);  // nobody else answers as well
  const std::string table = render(crossover_table(cells), table_format::md);
  EXPECT_TRUE(has(table, "| sparse 2.00x, 30.0 % |")) << table;
  EXPECT_TRUE(has(table, "3 cells; vanilla wins 3,")) << table;
  // Without a base against the best score; or whatever is answered.
  EXPECT_EQ(crossover_cells(scored(0.3))[1].methods[0].label, "vanilla");
  EXPECT_EQ(crossover_cells(scored(0.3), {"vanilla", false, 1})[1].methods[0].label, "sparse");
}

TEST(crossover, cells_for_plots) {
  const auto cells = nlohmann::json::parse(crossover_json(crossover_cells(sweep(), {"vanilla"})));
  ASSERT_EQ(cells.size(), 3u);
  for (const auto& cell : cells) {
    EXPECT_EQ(cell["methods"].size(), 2u);
    EXPECT_TRUE(cell["margin"].is_number());
  }
}

TEST(crossover, models_are_compared_only_when_asked) {
  std::vector<result_row> rows = sweep();
  for (result_row& row : rows) {
    if (row.label == "sparse") row.model.name = "another";
  }
  EXPECT_EQ(crossover_cells(rows).size(), 6u);
  const auto cells = crossover_cells(rows, {"", true});
  ASSERT_EQ(cells.size(), 3u);
  EXPECT_EQ(cells[1].methods[0].label, "sparse (another)");
  EXPECT_TRUE(
      has(message_of([&] { crossover_cells(rows, {"vanila"}); }), "did you mean 'vanilla'"));
  EXPECT_TRUE(crossover_cells(frame()).empty());
}

}  // namespace
}  // namespace unmask
