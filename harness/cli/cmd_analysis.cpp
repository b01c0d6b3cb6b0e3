// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What looks at rows that are there: the plain tables; the rest is the package's.
#include "harness/analysis/frame.h"
#include "harness/analysis/table.h"
#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"

namespace unmask {
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

int command_compare(const texts& arguments) {
  return run_in_package("compare", arguments);
}

}  // namespace unmask
