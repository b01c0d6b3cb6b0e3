// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/analysis/published.h"
#include "harness/base/files.h"
#include "harness/base/process.h"
#include "harness/experiment/artifact_files.h"
#include "tests/harness/analysis/rows.h"

namespace unmask {
namespace {

using namespace testing_analysis;

const char* const layout_text = R"(
[layout]
rows = "label"
row_header = "Method"
across = "batch_size"
[[layout.columns]]
metric = "tokens_per_second"
header = "tok/s"
published = "TPS {}"
best = "max"
[[layout.columns]]
metric = "score"
header = "Acc & all"
factor = 100
where = { workload = ["word_problem", "gsm8k"] }
[[layout.columns]]
metric = "speedup"
header = "x"
digits = 2
[layout.published_rows]
"fast" = "FOCUS"
[layout.base]
label = "slow_1"
)";

class layouts : public testing::Test {
 protected:
  layouts() {
    std::string text = artifact_text;
    text.replace(text.find("title = \"Speed & r"), 0, "published = \"../published/focus.toml\"\n");
    write(scratch / "focus/table_5.toml", text + layout_text);
    write(scratch / "published/focus.toml",
          "paper = \"focus\"\ntitle = \"FOCUS: a paper\"\narxiv = \"2601.00001\"\n" +
              value("FOCUS", "TPS 1", "117.30") + value("FOCUS", "TPS 8", "900") +
              value("slow_1", "TPS 1", "50") + value("LMDeploy", "TPS 8", "400") +
              value("Other artifact's row", "elsewhere", "3"));
    rows = {row_of("slow_1", {2.0, 2.1, 1.9}, 1), row_of("slow_1", {1.0, 1.0, 1.0}, 8),
            row_of("fast", {1.0, 1.02, 0.98}, 1), row_of("fast", {0.5, 0.51, 0.49}, 8)};
    rows[3].model.weights = "synthetic";
    rows[3].metrics["tokens_per_second"].from = origin::synthetic;
    rows[3].score.reset();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].position = static_cast<std::int64_t>(i);
    }
  }
  static std::string value(const std::string& row, const std::string& column,
                           const std::string& number) {
    return "[[value]]\nartifact = \"table_5\"\nrow = \"" + row + "\"\ncolumn = \"" + column +
           "\"\nmetric = \"throughput\"\nvalue = " + number +
           "\nunit = \"tok/s\"\nsource = \"Table 5\"\n";
  }
  laid_out_table table() { return lay_out(read_layout(scratch / "focus/table_5.toml", ""), rows); }
  static std::string golden(const std::string& name) {
    return read_file(
        std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/harness/analysis/fixtures" / name,
        1 << 20);
  }

  scratch_directory scratch;
  std::vector<result_row> rows;
};

TEST_F(layouts, tables_are_those_of_the_fixtures) {
  EXPECT_EQ(render_layout(table(), table_format::md), golden("layout.md"));
  EXPECT_EQ(render_layout(table(), table_format::csv), golden("layout.csv"));
  EXPECT_EQ(render_layout(table(), table_format::latex), golden("layout.tex"));
}

TEST_F(layouts, paper_and_measured_stand_apart) {
  const laid_out_table t = table();
  ASSERT_EQ(t.columns.size(), 6u);
  ASSERT_EQ(t.rows.size(), 3u);  // two of ours, one of the paper alone
  EXPECT_EQ(t.rows[1].name, "fast");
  EXPECT_EQ(t.rows[1].cells[0].published->value, 117.30);
  EXPECT_NEAR(*t.rows[1].cells[0].measured, 100, 0.1);
  EXPECT_TRUE(t.rows[1].cells[0].bold);
  EXPECT_FALSE(t.rows[0].cells[0].bold);
  EXPECT_TRUE(t.rows[1].cells[1].dagger);
  EXPECT_FALSE(t.rows[1].cells[3].measured);  // no score of synthetic weights
  EXPECT_NEAR(*t.rows[1].cells[4].measured, 2.0, 0.01);
  EXPECT_EQ(t.rows[2].name, "LMDeploy");
  EXPECT_FALSE(t.rows[2].cells[1].measured);  // the paper's number is never ours
  EXPECT_EQ(t.rows[2].cells[1].published->value, 400);
}

TEST_F(layouts, several_rows_in_a_cell_are_averaged) {
  rows.push_back(row_of("fast", {1.0, 1.0, 1.0}, 1, "gsm8k"));
  rows.back().score = score_record{0.7, 7, 10, 0.4, 0.9};
  const laid_out_table t = table();
  EXPECT_NEAR(*t.rows[1].cells[2].measured, 60, 1e-9);
  EXPECT_EQ(t.rows[1].cells[2].unit_of_n, "rows");
  EXPECT_EQ(t.rows[1].cells[2].n, 2u);
}

TEST_F(layouts, a_published_score_stands_beside_one_of_its_harness_only) {
  std::string text = artifact_text;
  text.replace(text.find("title = \"Speed & r"), 0, "published = \"../published/focus.toml\"\n");
  text += layout_text;
  const std::string header = "header = \"Acc & all\"\n";
  text.insert(text.find(header) + header.size(), "published = \"Acc\"\n");
  write(scratch / "focus/table_5.toml", text);
  write(scratch / "published/focus.toml",
        "paper = \"focus\"\ntitle = \"FOCUS\"\nharness = \"OC-F\"\n" +
            value("slow_1", "Acc", "81.5"));
  const auto score_of = [&](const char* harness) {
    for (result_row& row : rows) row.workload.benchmark.harness = harness;
    const laid_out_table t = table();
    const auto column = std::ranges::find(t.columns, "score", &laid_out_column::metric);
    return t.rows.at(0).cells.at(static_cast<std::size_t>(column - t.columns.begin()));
  };
  EXPECT_TRUE(score_of("OC-F").published);
  EXPECT_FALSE(score_of("OC-S").published);
  EXPECT_TRUE(score_of("OC-S").other_harness);
  EXPECT_TRUE(score_of("").published);  // our own tasks: the layout's words say what they are
  const std::vector<std::string> notes = [&] {
    score_of("OC-S");
    return table().footnotes;
  }();
  EXPECT_TRUE(std::ranges::any_of(notes, [](const std::string& note) {
    return note.find("another harness (OC-S; the paper: OC-F)") != std::string::npos;
  }));
}

TEST_F(layouts, speeds_measured_beside_other_runs_are_not_to_be_read) {
  const auto said = [&] {
    return std::ranges::any_of(table().footnotes, [](const std::string& note) {
      return note.find("Read no speed here: other measurements ran") != std::string::npos;
    });
  };
  EXPECT_FALSE(said());
  rows[1].environment = std::string("{\"notes\":[\"") + shared_machine_note + "\"]}";
  EXPECT_TRUE(said());
}

TEST_F(layouts, failed_rows_show_nothing) {
  rows[0].verdict = verdict_kind::failed;
  const laid_out_table t = table();
  for (const laid_out_row& row : t.rows) {
    if (row.name == "slow_1") {
      EXPECT_FALSE(row.cells[0].measured);
    }
  }
}

TEST_F(layouts, a_column_that_no_row_fills_is_a_footnote) {
  for (result_row& row : rows) row.score.reset();
  const std::string shown = render_layout(table(), table_format::md);
  EXPECT_EQ(shown.find("| Acc & all"), std::string::npos) << shown;
  EXPECT_NE(shown.find("Measured in no row: Acc & all, batch_size 1; Acc & all, batch_size 8."),
            std::string::npos)
      << shown;
  for (result_row& row : rows) row.verdict = verdict_kind::failed;  // every column is empty
  EXPECT_EQ(render_layout(table(), table_format::md).find("Measured in no row"), std::string::npos);
}

TEST_F(layouts, mistakes_are_refused) {
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string text = std::string(artifact_text) + layout_text;
    text.replace(text.find(from), from.size(), to);
    write(scratch / "focus/table_5.toml", text);
    return message_of([&] { read_layout(scratch / "focus/table_5.toml", ""); });
  };
  EXPECT_TRUE(has(said("best = \"max\"", "best = \"maximum\""), "did you mean 'max'"));
  EXPECT_TRUE(has(said("rows = \"label\"", "rows = \"lable\""), "did you mean 'label'"));
  EXPECT_TRUE(has(said("row_header", "row_heder"), "row_heder"));
  EXPECT_TRUE(has(said("[layout.base]\nlabel = \"slow_1\"", ""), "needs [layout.base]"));
  EXPECT_TRUE(has(said("metric = \"score\"", "digits = 1"), "needs `metric`"));
  EXPECT_THROW(parse_table_format("tex"), error);
  EXPECT_THROW(lay_out(paper_layout(), rows), error);
}

TEST(latex, every_special_character_is_escaped) {
  EXPECT_EQ(latex_text("a_b & 5 % {x} #1 $y ~ ^ \\"),
            "a\\_b \\& 5 \\% \\{x\\} \\#1 \\$y \\textasciitilde{} \\textasciicircum{} "
            "\\textbackslash{}");
  EXPECT_EQ(latex_text("1 ± 2 – †"), "1 $\\pm$ 2 -- $^\\dagger$");
}

const std::string head = "paper = \"focus\"\ntitle = \"FOCUS\"\narxiv = \"2601.00001\"\n";
const std::string value =
    "[[value]]\nartifact = \"table_5\"\nrow = \"DC\"\ncolumn = \"tok/s\"\nmetric = \"throughput\"\n"
    "value = 12\nunit = \"tok/s\"\nsource = \"Table 5, row DC\"\n";

published_paper parsed(const std::string& text) {
  return parse_published(text, "/x/focus.toml");
}

TEST(published, values_are_found_by_cell) {
  const published_paper paper =
      parsed(head + value + "[[inconsistency]]\nwhere = \"Table 5\"\nwhat = \"sums differ\"\n");
  ASSERT_EQ(paper.values.size(), 1u);
  ASSERT_NE(paper.find("table_5", "DC", "tok/s"), nullptr);
  EXPECT_EQ(paper.find("table_5", "DC", "tok/s")->value, 12);
  EXPECT_EQ(paper.find("table_5", "DC", "tok/s", "speedup"), nullptr);
  EXPECT_EQ(paper.find("table_6", "DC", "tok/s"), nullptr);
  ASSERT_EQ(paper.inconsistencies.size(), 1u);
  EXPECT_EQ(paper.inconsistencies[0].what, "sums differ");
}

TEST(published, several_metrics_in_a_cell_must_be_told_apart) {
  std::string other = value;
  other.replace(other.find("throughput"), 10, "speedup");
  const published_paper paper = parsed(head + value + other);
  EXPECT_NE(paper.find("table_5", "DC", "tok/s", "speedup"), nullptr);
  EXPECT_THROW(paper.find("table_5", "DC", "tok/s"), error);
}

TEST(published, mistakes_are_refused) {
  const auto without = [&](const std::string& line) {
    std::string text = value;
    const std::size_t at = text.find(line);
    return head + text.erase(at, text.find('\n', at) - at + 1);
  };
  const struct {
    std::string text, says;
  } cases[] = {{head + value + value, "twice"},
               {head + value + "colour = 3\n", "colour"},
               {without("source"), "`value.source`"},
               {without("unit"), "`unit`"},
               {without("value = 12"), "`value`"},
               {head + value + "[[valeu]]\n", "did you mean 'value'"},
               {"paper = \"optimus\"\ntitle = \"t\"\n", "name of the file"},
               {head + "[[inconsistency]]\nwhere = \"x\"\n", "inconsistency.what"},
               {head + "[[value]\n", "focus.toml:4"}};
  for (const auto& c : cases) {
    const std::string said = message_of([&] { parsed(c.text); });
    EXPECT_TRUE(has(said, c.says)) << c.says << ": " << said;
    EXPECT_TRUE(has(said, "focus.toml")) << said;
  }
  std::string text = head + value;
  text.replace(text.find("value = 12"), 10, "value = nan");
  EXPECT_TRUE(has(message_of([&] { parsed(text); }), "finite"));
  text = head + value;
  text.replace(text.find("value = 12"), 10, "value = \"12\"");
  EXPECT_TRUE(has(message_of([&] { parsed(text); }), "takes a number"));
  EXPECT_THROW(read_published("/no/such/focus.toml"), error);
}

}  // namespace

}  // namespace unmask
