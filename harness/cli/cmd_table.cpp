// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask table: the plain tables of rows; what is arranged is the package's.
#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/plan/catalogue.h"
#include "harness/rows/row_table.h"
#include "harness/rows/table.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

row_table rows_of(const command_line& line, const char* missing) {
  line.place("rows", missing);
  const texts files = line.list("rows");
  const row_table rows = read_row_table({files.begin(), files.end()});
  if (!rows.rows().empty()) return rows;
  // A folder of runs is none: its rows lie one folder deeper, those of a job array in its tasks'.
  for (const std::string& file : files) {
    if (!fs::is_directory(file)) continue;
    const auto below = files_below(file, [](const std::string& name) {
      return name == "rows.jsonl" || (name.starts_with("part-") && name.ends_with(".jsonl"));
    });
    if (below.empty()) continue;
    throw environment_error(
        file + " holds no results itself; give " + below.front().parent_path().string() +
        " or another of its folders, or make one file of all: unmask merge " + file + " -o FILE");
  }
  throw environment_error(files.front() + " holds no results (*.jsonl); give the folder of a run");
}

// KEY=VALUE, several of one key: any of the values; of several keys: all of them.
row_selector selector_of_options(const command_line& line) {
  row_selector by;
  for (const std::string& text : line.list("where")) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw usage_error("--where takes KEY=VALUE, not '" + text + "'");
    }
    check_row_key(text.substr(0, equals), "--where");
    by.keys[text.substr(0, equals)].emplace_back(text.substr(equals + 1));
  }
  return by;
}

row_table picked(const row_table& rows, const row_selector& by) {
  std::vector<result_row> kept;
  for (const result_row& row : rows.rows()) {
    if (by.matches(row)) kept.push_back(row);
  }
  if (kept.empty()) throw usage_error("no row there fits --where: " + by.text());
  return kept;
}

// What a view shows must be there: an empty table answers nothing.
void check_view(const std::string& view, const row_table& rows) {
  if (view == "phases" && std::ranges::none_of(rows.rows(), [](const auto& r) {
        return r.probes.contains("phases");
      })) {
    throw usage_error("no row has phases; unmask profile measures them");
  }
}

}  // namespace

int command_table(const texts& arguments) {
  const option_table options = {
      output_option("write into this file; paper tables of several runs: into this folder"),
      format_option("print md, csv, latex or json; rows as json: the rows themselves"),
      {"view", std::string("rows"),
       "show rows: a line each; paired: each setting compared with its base, with verdicts; "
       "paper: the paper's table next to its published numbers; parallelism: the area under score "
       "against tokens/forward of each method; phases: those of unmask profile"},
      {"columns", no_default,
       "show only these columns, separated by commas: score,tokens_per_second,speedup; names: "
       "unmask show glossary"},
      {"caption", no_default, "give a LaTeX table this caption"},
      {"label", no_default, "give a LaTeX table this label"},
      {"interval", flag(),
       "print the 95 % interval after each number of a LaTeX table; other formats always have it"},
      {"where", repeated(),
       "take only rows with KEY=VALUE: model, workload, method, label, preset, a key of [run], "
       "params.NAME or serve.NAME (repeatable: any value of a key, all keys)"},
      {"artifact", no_default,
       "with --view paper: arrange rows that have no run.json like this experiment file"},
      {"scale", no_default, "take this scale of --artifact (default: tiny)"}};
  const command_line line("table ROWS.jsonl|RUN... [options]",
                          options + paired_options() + option_table{experiments_option()},
                          {"rows..."}, arguments);
  const char* missing = "table needs files of rows";
  line.place("rows", missing);
  const table_format format = line.format();
  const std::string view = line.text("view");
  find_known("view", view, {"rows", "paired", "paper", "parallelism", "phases"});
  const bool arranged = line.given("columns") || line.given("caption") || line.given("label") ||
                        line.given("interval");
  const bool in_package = view == "paper" || view == "paired" || view == "parallelism";
  if (in_package || (view == "rows" && arranged)) {
    texts words = {"table"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    become_package(words);
  }
  if (line.given("artifact")) throw usage_error("--artifact needs --view paper");
  const row_selector by = selector_of_options(line);
  const row_table rows = picked(rows_of(line, missing), by);
  check_view(view, rows);
  line.write(view == "phases" ? render(phase_tables(rows.all()), format)
                              : render_rows(rows, format));
  return 0;
}

}  // namespace unmask
