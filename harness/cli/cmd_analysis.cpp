// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// table, claims, compare and crossover: what looks at rows that are there.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "harness/analysis/ablation.h"
#include "harness/analysis/compare.h"
#include "harness/analysis/crossover.h"
#include "harness/analysis/figure_data.h"
#include "harness/analysis/json_of.h"
#include "harness/analysis/store.h"
#include "harness/analysis/table.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/cli/paired.h"
#include "harness/experiment/artifact_files.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

frame rows_of(const command_line& line, const char* missing) {
  line.place("rows", missing);
  const texts files = line.list("rows");
  const frame rows = read_frame({files.begin(), files.end()});
  if (!rows.rows().empty()) return rows;
  // A folder of runs is none: its rows lie one folder deeper, those of a job array in its tasks'.
  for (const std::string& file : files) {
    if (!fs::is_directory(file)) continue;
    const auto below = files_below(file, [](const std::string& name) {
      return name == "rows.jsonl" || (name.starts_with("part-") && name.ends_with(".jsonl"));
    });
    if (below.empty()) continue;
    throw environment_error(
        file + " holds no result rows itself; give " + below.front().parent_path().string() +
        " or another of its folders, or make one file of all: unmask merge " + file + " -o FILE");
  }
  throw environment_error(files.front() +
                          " holds no result rows (*.jsonl); give a file of rows or the folder of a "
                          "run");
}

// What a view shows must be there: an empty table answers nothing.
void check_view(const std::string& view, const frame& rows, const command_line& line) {
  if (view == "phases" && std::ranges::none_of(rows.rows(), [](const auto& r) {
        return r.probes.contains("phases");
      })) {
    throw usage_error("no row has phases; unmask profile measures them");
  }
  if (view == "paired" &&
      paired_comparison(rows, {line.real("margin"), line.real("score-margin")}, line.text("base"))
          .empty()) {
    throw usage_error("no row has a base that it can be compared with; name one with --base LABEL");
  }
}

const option speed_option = {
    "ignore-speed", flag(),
    "compare answers, scores and counts alone: for another machine, or one with other work"};

compared_speeds speeds_of(const command_line& line) {
  return line.given("ignore-speed") ? compared_speeds::none : compared_speeds::ratios;
}

int exit_status_of(const run_comparison& comparison) {
  return static_cast<int>(comparison.same() ? exit_code::ok : exit_code::not_reproduced);
}

// The paper's arrangement of every run below these paths, by the name of its artifact.
std::vector<std::pair<std::string, laid_out_table>> paper_tables(const command_line& line) {
  std::vector<std::pair<std::string, laid_out_table>> tables;
  for (const std::string& path : line.list("rows")) {
    for (const artifact_run& run :
         runs_below(path, line.text("artifact"), line.text("scale"), experiments_folder(line))) {
      const paper_layout layout = read_layout(run.file, run.scale);
      if (layout.columns.empty() && !line.given("artifact")) continue;  // drawn, not tabulated
      tables.emplace_back(run.name, lay_out(layout, read_frame({run.rows})));
    }
  }
  if (tables.empty()) {
    throw usage_error(
        "no run of an artifact with a [layout] there; give --artifact EXPERIMENT.toml");
  }
  return tables;
}

// One file, or one for each artifact where several are written to a folder.
void write_paper_tables(const command_line& line, table_format format) {
  const auto tables = paper_tables(line);
  const std::string ending = format == table_format::latex ? "tex" : line.text("format");
  if (tables.size() > 1 && line.given("output")) {
    for (const auto& [name, table] : tables) {
      write_file(fs::path(line.text("output")) / (name + "." + ending),
                 render_layout(table, format));
    }
    return;
  }
  std::string text;
  for (const auto& [name, table] : tables) {
    text += (text.empty() ? "" : "\n") + render_layout(table, format);
  }
  line.write(text);
}

}  // namespace

option_table paired_options() {
  return {{"margin", 0.02, "of speed, relative: what counts as the same"},
          {"score-margin", 0.02, "of the score, of 1"},
          {"base", no_default,
           "label that all are compared with; default: each label's setting without the sweep"}};
}

std::string paired_report(const frame& rows, const command_line& line) {
  const table_format format = line.format();
  const ablation_margins margins{line.real("margin"), line.real("score-margin")};
  if (!(margins.speed > 0) || !(margins.score > 0)) {
    throw usage_error("--margin and --score-margin must be above 0");
  }
  const auto lines = paired_comparison(rows, margins, line.text("base"));
  const auto effects = main_effects(rows, margins);
  return format == table_format::json ? ablation_json(lines, effects, margins)
                                      : render(ablation_tables(lines, effects, margins), format);
}

int command_table(const texts& arguments) {
  const option_table options = {
      output_option("file; of paper tables of several runs a folder"),
      format_option("md, csv, latex or json; rows as json: the rows themselves"),
      {"view", std::string("rows"),
       "rows; paired: each setting against its base, with verdicts; paper: as [layout] of the "
       "artifact arranges it, beside the published numbers; phases: of unmask profile; figures: "
       "what plots/ draws, as JSON"},
      {"artifact", no_default,
       "experiment file, for the view paper of rows without a run.json beside them"},
      {"scale", no_default, "of --artifact; default tiny"}};
  const command_line line("table ROWS.jsonl|RUN... [options]",
                          options + paired_options() + option_table{experiments_option()},
                          {"rows..."}, arguments);
  const char* missing = "table needs files of rows";
  line.place("rows", missing);
  const table_format format = line.format();
  const std::string view = line.text("view");
  find_known("view", view, {"rows", "paired", "paper", "phases", "figures"});
  if (view == "paper") {
    write_paper_tables(line, format);
    return 0;
  }
  if (line.given("artifact")) throw usage_error("--artifact needs --view paper");
  const frame rows = rows_of(line, missing);
  check_view(view, rows, line);
  line.write(view == "paired"    ? paired_report(rows, line)
             : view == "phases"  ? render(phase_tables(rows.all()), format)
             : view == "figures" ? json_text(figure_data(rows))
                                 : render_rows(rows, format));
  return 0;
}

int command_claims(const texts& arguments) {
  const command_line line(
      "claims [RESULTS] [options]",
      {output_option("file; default: standard output"),
       format_option("md, csv, latex or json"),
       {"scale", std::string("tiny"), "tiny, real, shapes or full"},
       {"only", repeated(), "PAPER or PAPER/CLAIM (repeatable)"},
       experiments_option()},
      {"results"}, arguments,
      "\nThe papers' claims against the rows in RESULTS/PAPER/ARTIFACT/SCALE (default runs; unmask "
      "run FOLDER\nmeasures them). What is claimed: unmask list claims.\nverdicts: REPRODUCED; "
      "REPRODUCED (model), by synthetic weights or a virtual clock; PARTLY, some points hold;\n"
      "AMBIGUOUS, the sample is too small to tell; NOT REPRODUCED; NOT APPLICABLE, with the "
      "precondition that is\nnot met; NOT RUN, with what it needs.\nexit code 4 when a claim is "
      "NOT REPRODUCED or PARTLY\n");
  const table_format format = line.format();
  const fs::path results = line.given("results") ? line.list("results").front() : "runs";
  const fs::path folder = experiments_folder(line) / "claims";
  if (!fs::is_directory(folder))
    throw environment_error("there are no claims in " + folder.string());
  if (!fs::is_directory(results)) {
    throw environment_error("there are no results in " + results.string());
  }
  std::vector<paper_claim> claims = read_claims(folder);
  keep_claims(claims, line.list("only"));
  const std::vector<checked_claim> checked =
      check_claims(claims, results, line.text("scale"), this_machine());
  line.write(format == table_format::json ? claims_json(checked)
                                          : render(claims_table(checked), format));
  return exit_status_of(checked);
}

int command_crossover(const texts& arguments) {
  const command_line line(
      "crossover ROWS.jsonl... [options]",
      {output_option("file; default: standard output"),
       format_option("md, csv, latex or json"),
       {"base", no_default, "label that speed-ups and scores are taken against"},
       {"score-within", 0.1,
        "what a method may lose of the base's score (without a base: of the best one's) and still "
        "win; 0 to 1, 1: whatever it answers"},
       {"across-models", flag(), "compare methods of all models"}},
      {"rows..."}, arguments,
      "\nA cell per model, workload, batch size and generation length; the winner is the fastest "
      "method that answers well enough.\n");
  const table_format format = line.format();
  const crossover_rule rule{line.text("base"), line.given("across-models"),
                            line.real("score-within")};
  if (!(rule.score_within >= 0 && rule.score_within <= 1)) {
    throw usage_error("--score-within is from 0 to 1");
  }
  const auto cells = crossover_cells(rows_of(line, "crossover needs files of rows"), rule);
  if (cells.empty()) throw usage_error("no row of these files has a throughput");
  line.write(format == table_format::json ? crossover_json(cells)
                                          : render(crossover_table(cells), format));
  return 0;
}

int command_compare(const texts& arguments) {
  const command_line line(
      "compare BEFORE AFTER [options]",
      {output_option("file; default: standard output"), speed_option}, {"runs..."}, arguments,
      "\nTwo runs, rows files or whole campaigns of the same experiments: answers, scores and "
      "counts must be the same,\nspeed ratios within their intervals, all but as many as chance "
      "explains. exit code 4 when something differs\n");
  const texts runs = line.list("runs");
  if (runs.size() != 2) throw usage_error("compare needs two runs");
  const run_comparison comparison = compare_paths(runs[0], runs[1], speeds_of(line));
  line.write(comparison_text(comparison));
  return exit_status_of(comparison);
}

}  // namespace unmask
