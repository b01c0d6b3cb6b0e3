// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The papers' numbers: each has a source, and what the papers compute from other cells (averages,
// ratios, reductions) comes out again, within rounding, unless it is listed as an inconsistency.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include <toml++/toml.h>

#include "tests/experiments/files.h"

namespace unmask {
namespace {

using namespace test;

struct cell {
  std::string artifact, row, column, metric;
  auto operator<=>(const cell&) const = default;
};

using cells = std::map<cell, double>;

std::string text_in(const toml::table& table, const char* key) {
  return table[key].value_or(std::string());
}

toml::table file_of(const std::string& paper) {
  return toml::parse_file((experiments() / "published" / (paper + ".toml")).string());
}

cells cells_of(const std::string& paper) {
  cells all;
  const toml::table file = file_of(paper);
  for (const toml::node& node : *file["value"].as_array()) {
    const toml::table& t = *node.as_table();
    all[{text_in(t, "artifact"), text_in(t, "row"), text_in(t, "column"), text_in(t, "metric")}] =
        t["value"].value<double>().value();
  }
  return all;
}

TEST(published_numbers, every_number_has_its_place_and_source) {
  for (const test::paper_files& paper : papers()) {
    SCOPED_TRACE(paper.name);
    const toml::table file = file_of(paper.name);
    EXPECT_EQ(text_in(file, "paper"), paper.name);
    std::set<cell> seen;
    const std::vector<std::string> known = artifacts_of(paper);
    for (const toml::node& node : *file["value"].as_array()) {
      const toml::table& t = *node.as_table();
      const cell c{text_in(t, "artifact"), text_in(t, "row"), text_in(t, "column"),
                   text_in(t, "metric")};
      SCOPED_TRACE(c.artifact + ", " + c.row + ", " + c.column + ", " + c.metric);
      EXPECT_TRUE(seen.insert(c).second) << "stands here twice";
      EXPECT_TRUE(t["value"].is_number());
      EXPECT_FALSE(c.row.empty() || c.column.empty() || c.metric.empty());
      EXPECT_FALSE(text_in(t, "source").empty());
      EXPECT_TRUE(t.contains("unit"));
      const bool numbered = c.artifact.starts_with("table_") || c.artifact.starts_with("figure_");
      EXPECT_TRUE(!numbered || std::ranges::find(known, c.artifact) != known.end());
      if (c.artifact.starts_with("table_") && text_in(t, "source").starts_with("Table")) {
        EXPECT_TRUE(text_in(t, "source").starts_with("Table " + c.artifact.substr(6)));
      }
    }
    for (const toml::node& node : *file["inconsistency"].as_array()) {
      const toml::table& t = *node.as_table();
      EXPECT_FALSE(text_in(t, "where").empty() || text_in(t, "what").empty());
      const std::string artifact = text_in(t, "artifact");
      if (!artifact.empty()) {
        EXPECT_NE(std::ranges::find(known, artifact), known.end()) << artifact;
      }
    }
  }
}

// Rows of an artifact that have an average of this metric.
std::set<std::string> averaged_rows(const cells& all, const std::string& artifact,
                                    const std::string& metric) {
  std::set<std::string> rows;
  for (const auto& [c, value] : all) {
    if (c.artifact == artifact && c.metric == metric && c.column == "Avg.") rows.insert(c.row);
  }
  return rows;
}

void expect_average(const cells& all, const std::string& artifact, const std::string& metric,
                    std::size_t columns, double slack, std::size_t rows) {
  const auto names = averaged_rows(all, artifact, metric);
  EXPECT_EQ(names.size(), rows) << artifact;
  for (const std::string& row : names) {
    double sum = 0, printed = 0;
    std::size_t n = 0;
    for (const auto& [c, value] : all) {
      if (c.artifact != artifact || c.row != row || c.metric != metric) continue;
      if (c.column == "Avg.") {
        printed = value;
      } else {
        sum += value;
        ++n;
      }
    }
    EXPECT_EQ(n, columns) << artifact << ", " << row;
    EXPECT_NEAR(sum / static_cast<double>(n), printed, slack) << artifact << ", " << row;
  }
}

TEST(published_numbers, averages_come_out_again) {
  const cells focus = cells_of("focus");
  expect_average(focus, "table_4", "score", 5, 0.0051, 2);
  const cells focus_dllm = cells_of("focus_dllm");
  expect_average(focus_dllm, "table_1", "score", 13, 0.0051, 10);
  expect_average(focus_dllm, "table_5", "score", 13, 0.0051, 17);
  const cells sparse = cells_of("sparse_dllm");
  expect_average(sparse, "table_1", "score", 7, 0.0051, 10);
  expect_average(sparse, "table_2", "score", 7, 0.0051, 10);
  expect_average(sparse, "table_4", "score", 3, 0.0051, 6);
  expect_average(sparse, "table_8", "score", 7, 0.0051, 3);
  const cells ada = cells_of("ada_dlm");
  expect_average(ada, "table_2", "speedup", 5, 0.0051, 4);
  expect_average(ada, "table_8", "speedup", 3, 0.01, 15);  // cut, not rounded: an inconsistency
}

TEST(published_numbers, ratios_come_out_again) {
  const cells focus = cells_of("focus");
  int reductions = 0;
  for (const auto& [c, value] : focus) {
    if (c.artifact != "table_5" || c.metric != "reduction") continue;
    const double before = focus.at({"table_5", c.row, "Baseline", "redundancy"});
    const double after = focus.at({"table_5", c.row, "FOCUS", "redundancy"});
    EXPECT_NEAR(100 * (1 - after / before), value, 0.0051) << c.row;
    ++reductions;
  }
  EXPECT_EQ(reductions, 6);

  // Cells of a method over those of the model it runs on: "MODEL + METHOD".
  const cells sparse = cells_of("sparse_dllm");
  int ratios = 0;
  for (const auto& [c, value] : sparse) {
    if (!c.metric.ends_with("_ratio") || c.column == "Avg.") continue;
    const std::string metric = c.metric.substr(0, c.metric.size() - 6);
    const std::string model = c.row.substr(0, c.row.find(" + "));
    const double own = sparse.at({c.artifact, c.row, c.column, metric});
    const double base = sparse.at({c.artifact, model, c.column, metric});
    EXPECT_NEAR(own / base, value, 0.0501) << c.row << ", " << c.column << ", " << metric;
    ++ratios;
  }
  EXPECT_EQ(ratios, 2 * 10 * 8 + 1);

  // Speed-ups of Table 1 are of the tokens per second on GSM8K; of Table 2, of seconds per sample.
  const cells ada = cells_of("ada_dlm");
  for (const char* model : {"Dream-7B", "LLaDA-8B"}) {
    const std::string name = model;
    const double base = ada.at({"table_1", name + ", Vanilla", "Speed", "throughput"});
    for (const char* method : {"dKV-Cache", "Fast-dLLM", "Ada-DLM"}) {
      const std::string row = name + ", " + method;
      const double speedup = ada.at({"table_1", row, "GSM8K", "speedup"});
      EXPECT_NEAR(ada.at({"table_1", row, "Speed", "throughput"}) / base, speedup, 0.03) << row;
    }
  }
  const double vanilla = ada.at({"table_2", "UltraLLaDA, Vanilla", "SPS", "seconds_per_sample"});
  for (const char* method : {"dKV-Cache", "Fast-dLLM", "Ada-DLM"}) {
    const std::string row = std::string("UltraLLaDA, ") + method;
    EXPECT_NEAR(vanilla / ada.at({"table_2", row, "SPS", "seconds_per_sample"}),
                ada.at({"table_2", row, "Avg.", "speedup"}), 0.03)
        << row;
  }
}

// The two tables print the same runs; the one cell that differs is listed.
TEST(published_numbers, repeated_cells_agree) {
  const cells all = cells_of("focus_dllm");
  const std::map<std::string, std::string> rows = {
      {"UltraLLaDA, Vanilla", "Vanilla"},
      {"UltraLLaDA, Fast-dLLM", "Fast-dLLM"},
      {"UltraLLaDA, Sparse-dLLM", "Sparse-dLLM (r = 0.5)"},
      {"UltraLLaDA, SparseD", "SparseD (skip = 0.2, r = 0.3)"},
      {"UltraLLaDA, Focus-dLLM", "Focus-dLLM (alpha = 0.5)"}};
  int differing = 0, compared = 0;
  for (const auto& [c, value] : all) {
    if (c.artifact != "table_1" || !rows.contains(c.row)) continue;
    ++compared;
    differing += value != all.at({"table_5", rows.at(c.row), c.column, c.metric});
  }
  EXPECT_EQ(compared, 5 * 14);
  EXPECT_EQ(differing, 1);
}

}  // namespace
}  // namespace unmask
