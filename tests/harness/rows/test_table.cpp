// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/rows/comparable.h"
#include "harness/rows/table.h"
#include "tests/harness/measure/fixtures.h"

namespace unmask {
namespace {

using namespace fixtures;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(table, markdown_of_a_row) {
  const std::string text = render_rows(std::vector{sample_row()}, table_format::md);
  // Passes of 1.0, 1.2 and 0.8 s: deviation 0.2, 4.3027 * 0.2 / sqrt(3) = 49.7 %.
  EXPECT_TRUE(has(text,
                  "| tiny | vanilla | word_problem | 2 | 50.0 [9, 91] | 6.0 ± 49.7 % ! | base | "
                  "1.00 | 2.00 | 4.00 | 6 | NOISY |\n"))
      << text;
  EXPECT_FALSE(has(text, "the speed is known")) << text;  // its column says so
  result_row once = sample_row();
  once.samples.seconds = {1};
  once.samples.half_width = std::nan("");
  once.verdict = row_verdict::pass;
  EXPECT_TRUE(has(render_rows(std::vector{once}, table_format::md), "| 6.0 (one pass) | base |"));
  EXPECT_TRUE(has(text, "\n!: speed known to worse than 10 %\n")) << text;
  EXPECT_FALSE(has(text, "mean of"));
}

// Twice as fast as the first method in the same circumstances, pass by pass; another batch size has a
// base of its own.
TEST(table, speed_ups_are_over_the_first_method_of_the_same_circumstances) {
  result_row fast = sample_row("fast"), wide = sample_row("wide");
  fast.label = "fast";
  for (double& seconds : fast.samples.seconds) seconds /= 2;
  wide.run.batch_size = 4;
  const std::string text = render_rows(std::vector{sample_row(), fast, wide}, table_format::md);
  EXPECT_TRUE(has(text, "| 2.00 [2.00, 2.00] |")) << text;
  EXPECT_TRUE(has(text, "± 49.7 % ! | base |")) << text;
  fast.workload.hash = "other items";
  EXPECT_FALSE(has(render_rows(std::vector{sample_row(), fast}, table_format::md), "| 2.00 ["));
}

// A resumed run of another build, or on other hardware, is no pair: no interval, and what differs is named.
TEST(table, a_speed_up_over_a_row_of_another_program_or_machine_has_no_interval) {
  result_row fast = sample_row("fast"), base = sample_row();
  base.environment = R"({"cpu_model":"A","load_average":[1,1,1],"omp_threads":2})";
  fast.environment = R"({"cpu_model":"A","load_average":[9,9,9],"omp_threads":2,"other_work":0.5})";
  fast.label = "fast";
  for (double& seconds : fast.samples.seconds) seconds /= 2;
  EXPECT_EQ(difference_of(base, fast), "");
  EXPECT_TRUE(has(render_rows(std::vector{base, fast}, table_format::md), "| 2.00 [2.00, 2.00] |"));
  fast.environment = R"({"cpu_model":"A","omp_threads":1})";
  fast.source_hash = "another";
  EXPECT_EQ(difference_of(base, fast), "omp_threads, source_hash");
  const std::string text = render_rows(std::vector{base, fast}, table_format::md);
  EXPECT_TRUE(has(text, "| 2.00 ≠ |")) << text;
  EXPECT_TRUE(has(text, "they differ in omp_threads, source_hash\n")) << text;
  // Nor if their ranks were connected in two ways; a row of one rank says nothing of it.
  result_row by_tcp = base, by_memory = base;
  by_tcp.topology = {1, "TCP", ""};
  EXPECT_EQ(difference_of(base, by_tcp), "");
  by_memory.topology = {1, "shared memory", ""};
  EXPECT_EQ(difference_of(by_memory, by_tcp), "topology");
  by_memory.topology = {2, "TCP", ""};
  EXPECT_EQ(difference_of(by_memory, by_tcp), "topology");
  by_memory.topology = by_tcp.topology;
  EXPECT_EQ(difference_of(by_memory, by_tcp), "");
  // On two machines they are no pair at all.
  fast.environment = R"({"cpu_model":"B","omp_threads":1})";
  EXPECT_EQ(difference_of(base, fast), "cpu_model, omp_threads, source_hash");
  EXPECT_FALSE(has(render_rows(std::vector{base, fast}, table_format::md), "2.00 ≠"));
}

TEST(table, what_is_known_against_a_machine_is_one_sentence) {
  result_row row = sample_row(), other = sample_row("other");
  const auto said = [&] { return unfit_sentence(row_table(std::vector{row, other}).all()); };
  EXPECT_EQ(said(), "");
  row.environment = other.environment = R"({"unfit":["the frequency governor is powersave"]})";
  other.samples.disturbance = "other work on the machine took 48 % of the processors";
  EXPECT_EQ(said(),
            "the machine was not fit to measure on: the frequency governor is powersave; 1 of 2 "
            "points were disturbed while they were measured");
}

// A verdict that says something else does not hide it, and a reason stands once.
TEST(table, a_noisy_speed_is_marked_whatever_the_verdict) {
  result_row row = sample_row(), other = sample_row("other");
  row.verdict = other.verdict = row_verdict::not_verified;
  row.reason = other.reason = "no item of this workload can be scored";
  other.label = "other";
  other.samples.half_width = 0.1;
  const std::string text = render_rows(std::vector{row, other}, table_format::md);
  EXPECT_TRUE(has(text, "± 49.7 % ! |")) << text;
  EXPECT_TRUE(has(text, "± 10.0 % |")) << text;
  EXPECT_EQ(text.find("no item"), text.rfind("no item")) << text;
  EXPECT_TRUE(has(text, "| UNSCORED |")) << text;
}

TEST(table, a_preset_stands_behind_the_label) {
  result_row row = sample_row();
  row.preset = "official";
  EXPECT_TRUE(has(render_rows(std::vector{row}, table_format::md), "| vanilla (official) |"));
  row.label = "vanilla, official";
  EXPECT_TRUE(has(render_rows(std::vector{row}, table_format::md), "| vanilla, official |"));
}

// OWASP, "CSV Injection": what begins with one of = + - @, a tab or a return is a formula.
TEST(text_table, csv_cells_are_no_formulas_and_numbers_stay_numbers) {
  text_table t{"a"};
  for (const char* text : {"=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "\rx", "-1.5",
                           "+3", "-1e-300", "-1e999", "plain", "-", "+", "--1", "++1"}) {
    t.add({text});
  }
  EXPECT_EQ(
      render(t, table_format::csv),
      "a\n'=cmd|' /C calc'!A0\n'+1+1\n'-2+3\n'@SUM(A1)\n\"'\tx\"\n'\\u000dx\n-1.5\n+3\n-1e-300\n"
      "-1e999\nplain\n'-\n'+\n'--1\n'++1\n");
}

TEST(text_table, no_text_ends_its_cell_or_commands_its_reader) {
  text_table t{"a | b"};
  t.add({"[2cm]\x1b[2J", "x\\|y"});
  t.add({"*", "<script>a\n<b"});
  t.add({"5 < 6", "\xC2\x9Bx"});
  EXPECT_EQ(render(t, table_format::md),
            "| a | b |\n|---|---|\n| [2cm]\\u001b[2J | x\\\\\\|y |\n| * | \\<script>a \\<b |\n"
            "| 5 < 6 | \\u009bx |\n");
  const std::string latex = render(t, table_format::latex);
  EXPECT_TRUE(has(latex, "\n{}[2cm]\\textbackslash{}u001b[2J & ")) << latex;
  EXPECT_TRUE(has(latex, "\n{}* & $<$script$>$a $<$b")) << latex;
}

TEST(table, tasks_with_right_answers_get_a_mean_line) {
  result_row second = sample_row("other"), told = sample_row("told");
  second.workload.family = "needle";
  second.workload.hash = "other items";
  second.score->mean = 1;
  told.workload.family = "story";
  told.workload.rater = "a model";
  told.score->mean = 0.1;
  const std::string text = render_rows(std::vector{sample_row(), second, told}, table_format::md);
  EXPECT_TRUE(has(text, "| **tiny** | **vanilla** | **mean of 2 tasks** | | 75.0 | | | 1.00 |"))
      << text;
  EXPECT_TRUE(has(text, "\nmean of N tasks: of those with right answers")) << text;
  EXPECT_FALSE(has(render_rows(std::vector{sample_row(), told}, table_format::md), "mean of"));
}

TEST(table, synthetic_weights_show_no_score_even_if_a_file_has_one) {
  result_row row = sample_row();
  row.model.weights = "synthetic";
  const std::string md = render_rows(std::vector{row}, table_format::md);
  EXPECT_TRUE(has(md, "tiny (synthetic)"));
  EXPECT_TRUE(has(md, "| 2 | – |"));
  EXPECT_FALSE(has(md, "| 50.0 |"));
  const std::string csv = render_rows(std::vector{row}, table_format::csv);
  EXPECT_FALSE(has(csv, ",0.5,1,2,"));
}

TEST(table, numbers_of_invalid_rows_are_not_shown) {
  result_row row = sample_row();
  row.verdict = row_verdict::invalid;
  row.reason = "a | b";
  const std::string text = render_rows(std::vector{row}, table_format::md);
  EXPECT_TRUE(has(text, "| – | – | – | – | – | – | INVALID: a \\| b |")) << text;
}

TEST(table, rows_of_one_experiment_stand_in_the_order_of_its_plan) {
  result_row late = sample_row("late"), early = sample_row("early");
  late.position = 2;
  early.position = 1;
  early.label = "first";
  const std::string text = render_rows(std::vector{late, early}, table_format::md);
  EXPECT_LT(text.find("first"), text.find("vanilla"));
}

TEST(table, the_last_row_of_a_point_counts) {
  result_row failed = sample_row();
  failed.verdict = row_verdict::failed;
  const std::string text = render_rows(std::vector{failed, sample_row()}, table_format::md);
  EXPECT_FALSE(has(text, "FAILED"));
  EXPECT_TRUE(has(text, "NOISY"));
}

TEST(table, settings_that_differ_are_told_apart) {
  result_row second = sample_row("other");
  second.run.batch_size = 4;
  const std::string text = render_rows(std::vector{sample_row(), second}, table_format::md);
  EXPECT_TRUE(has(text, "vanilla batch_size=1"));
  EXPECT_TRUE(has(text, "vanilla batch_size=4"));
}

TEST(table, csv_holds_every_key_of_run) {
  const std::string text = render_rows(std::vector{sample_row()}, table_format::csv);
  for (const run_key& key : run_key_list()) {
    EXPECT_TRUE(has(text, std::string(",") + key.name + ",")) << key.name;
  }
}

TEST(table, csv_quotes_and_stays_rectangular) {
  result_row row = sample_row();
  row.label = "a,\"b\"";
  const std::string text = render_rows(std::vector{row}, table_format::csv);
  EXPECT_TRUE(has(text, "\"a,\"\"b\"\"\""));
  result_row without_reason = sample_row();
  without_reason.reason = "";
  const std::string plain = render_rows(std::vector{without_reason}, table_format::csv);
  const std::size_t newline = plain.find('\n');
  EXPECT_EQ(std::count(plain.begin(), plain.begin() + static_cast<std::ptrdiff_t>(newline), ','),
            std::count(plain.begin() + static_cast<std::ptrdiff_t>(newline), plain.end(), ','));
}

TEST(table, json_holds_the_rows) {
  const std::vector<result_row> rows = {sample_row(), sample_row("other")};
  const auto array = nlohmann::json::parse(render_rows(rows, table_format::json));
  ASSERT_EQ(array.size(), 2u);
  EXPECT_EQ(array[1]["point_id"], rows[1].point_id);
  EXPECT_TRUE(
      nlohmann::json::parse(render_rows(std::vector<result_row>{}, table_format::json)).empty());
}

TEST(table, formats_by_name) {
  EXPECT_EQ(parse_table_format("csv"), table_format::csv);
  EXPECT_THROW(parse_table_format("sql"), error);
}

// A share above the roof, or roofs that differ, are the mark of a machine that was busy meanwhile.
TEST(table, a_roof_that_cannot_be_right_is_told_and_phases_may_follow_the_step) {
  const auto report_of = [](const std::string& share, const std::string& uncertain) {
    const std::string of_phase = R"(,"container":false,"calls":2,"rows":3,"flops":4,"bytes":5,)";
    return R"({"kernels":[],"phases":[{"phase":"embedding","own_seconds":1)" + of_phase +
           R"("roof_share":0.5},{"phase":"attention","own_seconds":2)" + of_phase +
           R"("roof_share":)" + share + R"(}],"seconds":1,"untraced_seconds":1,)" +
           R"("roofs":{"source":"s","uncertain":)" + uncertain +
           R"(},"device_unattributed":0,"provenance":{"work":"analytic"}})";
  };
  result_row row = sample_row();
  const auto text = [&](bool in_order) {
    return render(phase_tables({&row}, in_order), table_format::md);
  };
  row.probes["phases"] = report_of("1.04", "false");
  EXPECT_FALSE(has(text(false), "Roof uncertain"));
  EXPECT_LT(text(false).find("| attention |"), text(false).find("| embedding |"));
  EXPECT_LT(text(true).find("| embedding |"), text(true).find("| attention |"));
  row.probes["phases"] = report_of("1.273", "false");
  EXPECT_TRUE(has(text(false), "Roof uncertain: a phase is above it")) << text(false);
  row.probes["phases"] = report_of("0.9", "true");
  EXPECT_TRUE(has(text(false), "Roof uncertain: before and after")) << text(false);
}

// Reports come with rows, and rows from anybody.
TEST(table, a_report_of_phases_of_another_shape_is_said_and_hides_no_other) {
  const std::string good =
      R"({"kernels":[],"phases":[{"phase":"attention","container":false,"own_seconds":1,"calls":2,)"
      R"("rows":3,"flops":4,"bytes":5,"roof_share":0.5}],"seconds":1,"untraced_seconds":1,)"
      R"("roofs":{"source":""},"device_unattributed":0,"provenance":{"work":"analytic"}})";
  result_row right = sample_row("right");
  right.probes["phases"] = good;
  ASSERT_EQ(phase_tables({&right}).size(), 1u);
  std::vector<std::string> wrong = {"3", "[]", "{}", R"("text")", R"({"phases":7})"};
  // The same report with one key gone, or of another type.
  for (const char* key : {"phases", "phase", "container", "own_seconds", "seconds", "provenance"}) {
    const std::string name = std::string("\"") + key + "\":";
    std::string gone = good, other = good;
    wrong.push_back(gone.replace(gone.find(name), name.size(), "\"x\":"));
    wrong.push_back(other.replace(other.find(name), name.size(), name + "[0],\"x\":"));
  }
  for (const std::string& report : wrong) {
    result_row row = sample_row("wrong");
    row.probes["phases"] = report;
    testing::internal::CaptureStderr();
    const auto tables = phase_tables({&row, &right});
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_GE(tables.size(), 1u) << report;
    EXPECT_EQ(tables.size() == 1, has(said, "point wrong: its report `phases`")) << report << said;
  }
}

}  // namespace
}  // namespace unmask
