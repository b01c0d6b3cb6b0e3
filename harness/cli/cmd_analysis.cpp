// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What looks at rows that are there: the plain tables, bundles; the rest is the package's.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "harness/analysis/store.h"
#include "harness/analysis/table.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/experiment/bundle.h"
#include "harness/experiment/needs.h"
#include "harness/experiment/runner.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

frame rows_of(const command_line& line, const char* missing) {
  line.place("rows", missing);
  const texts files = line.list("rows");
  return read_frame({files.begin(), files.end()});
}

// The command of this name of the package, with these words behind it.
int run_in_package(const char* name, texts arguments) {
  arguments.insert(arguments.begin(), name);
  return run_package(arguments);
}

}  // namespace

int command_table(const texts& arguments) {
  const option_table options = {
      output_option("file; of paper tables of several runs a folder"),
      format_option("md, csv, latex or json; rows as json: the rows themselves"),
      {"view", std::string("rows"),
       "rows; paired: each setting against its base, with verdicts; paper: as [layout] of the "
       "artifact arranges it, beside the published numbers; phases: of unmask profile"},
      {"columns", no_default,
       "score,tokens_per_second,...: these columns, a group of lines for each task, the best of it "
       "in bold; of --view paper: these of its columns"},
      {"caption", no_default, "of a LaTeX table"},
      {"label", no_default, "of a LaTeX table"},
      {"artifact", no_default,
       "experiment file, for the view paper of rows without a run.json beside them"},
      {"scale", no_default, "of --artifact; default tiny"}};
  const command_line line("table ROWS.jsonl|RUN... [options]",
                          options + paired_options() + option_table{experiments_option()},
                          {"rows..."}, arguments,
                          "\nexample: unmask table runs/quickstart --columns score,tokens_per_second,"
                          "speedup --format latex\n");
  const char* missing = "table needs files of rows";
  line.place("rows", missing);
  const table_format format = line.format();
  const std::string view = line.text("view");
  find_known("view", view, {"rows", "paired", "paper", "phases"});
  const bool arranged = line.given("columns") || line.given("caption") || line.given("label");
  if (view == "paper" || view == "paired" || (view == "rows" && arranged)) {
    return run_in_package("table", arguments);
  }
  if (line.given("artifact")) throw usage_error("--artifact needs --view paper");
  const frame rows = rows_of(line, missing);
  line.write(view == "phases" ? render(phase_tables(rows.all()), format)
                              : render_rows(rows, format));
  return 0;
}

int command_claims(const texts& arguments) {
  return run_in_package("claims", arguments);
}

int command_crossover(const texts& arguments) {
  return run_in_package("crossover", arguments);
}

int command_report(const texts& arguments) {
  return run_in_package("report", arguments);
}

int command_bundle(const texts& arguments) {
  const command_line line(
      "bundle RUN -o FILE.tar", {output_option("FILE.tar")}, {"directory"}, arguments,
      "\nPacks the directory of a run: rows, what was asked for, environment, hashes. Another "
      "machine\nrepeats it with unmask rerun FILE.tar\n");
  const fs::path directory = line.place("directory", "bundle needs the directory of a run");
  if (!line.given("output")) throw usage_error("bundle needs -o FILE.tar");
  const fs::path file = line.text("output");
  for (const std::string& name : write_bundle(directory, file)) fmt::print("  {}\n", name);
  fmt::print("{}\n", file.string());
  return 0;
}

int command_rerun(const texts& arguments) {
  const command_line line(
      "rerun BUNDLE.tar [options]",
      {output_option(
           "folder in which the bundle is unpacked and repeated; default runs/rerun/BUNDLE"),
       {"no-progress", flag(), "no progress on standard error"},
       {"ignore-speed", flag(),
        "compare answers, scores and counts alone: for another machine, or one with other work"}},
      {"bundle"}, arguments,
      "\nRepeats the run of a bundle and compares: answers and counts must be the same, speed "
      "ratios within their\nintervals. From the root of the source tree, for models and tasks. "
      "exit code 4 when something differs\n");
  const fs::path file = line.place("bundle", "rerun needs a bundle");
  const fs::path place = line.text("output", "runs/rerun/" + file.stem().string());
  const unpacked_bundle bundle = read_bundle(file, place / "bundle");
  const run_manifest& m = bundle.manifest;
  experiment_spec spec = parse_spec(m.text, m.file, m.scale);
  for (const std::string& assignment : m.overrides) apply_override(spec, assignment);
  if (const std::string obstacle = cannot_run(spec, this_machine()); !obstacle.empty()) {
    fmt::print("{}\n", obstacle);
    return static_cast<int>(exit_code::environment);
  }
  run_options run;
  run.output = place / "rows";
  run.progress = !line.given("no-progress");
  const run_summary summary = run_experiment(spec, run);
  if (summary.failed > 0) return summary.exit_status();
  texts sides = {bundle.directory.string(), summary.file.parent_path().string()};
  if (line.given("ignore-speed")) sides.emplace_back("--ignore-speed");
  return run_in_package("compare", sides);
}

int command_compare(const texts& arguments) {
  return run_in_package("compare", arguments);
}

}  // namespace unmask
