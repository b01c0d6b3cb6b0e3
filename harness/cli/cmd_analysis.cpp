// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// table, compare, crossover, bundle and rerun: what looks at rows that are there.
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
#include "harness/base/nearest.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/cli/paired.h"
#include "harness/experiment/artifact_files.h"
#include "harness/experiment/bundle.h"
#include "harness/experiment/runner.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

std::string only_text(const po::variables_map& values, const char* name, const char* what) {
  if (!values.count(name)) throw usage_error(what);
  return values[name].as<texts>().front();
}

frame rows_of(const po::variables_map& values, const char* what) {
  if (!values.count("rows")) throw usage_error(what);
  const texts files = texts_of(values, "rows");
  return read_frame({files.begin(), files.end()});
}

void add_speed_option(po::options_description& options) {
  options.add_options()("ignore-speed",
                        "compare answers, scores and counts alone: for another machine, or one "
                        "with other work");
}

compared_speeds speeds_of(const po::variables_map& values) {
  return values.count("ignore-speed") ? compared_speeds::none : compared_speeds::ratios;
}

int exit_status_of(const run_comparison& comparison) {
  return static_cast<int>(comparison.same() ? exit_code::ok : exit_code::not_reproduced);
}

// The paper's arrangement of every run below these paths, by the name of its artifact.
std::vector<std::pair<std::string, laid_out_table>> paper_tables(const po::variables_map& values) {
  std::vector<std::pair<std::string, laid_out_table>> tables;
  for (const std::string& path : texts_of(values, "rows")) {
    for (const artifact_run& run :
         runs_below(path, text_of(values, "artifact"), text_of(values, "scale"),
                    text_of(values, "experiments-dir"))) {
      const paper_layout layout = read_layout(run.file, run.scale);
      if (layout.columns.empty() && !values.count("artifact")) continue;  // drawn, not tabulated
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
void write_paper_tables(const po::variables_map& values, table_format format) {
  const auto tables = paper_tables(values);
  const std::string ending = format == table_format::latex ? "tex" : text_of(values, "format");
  if (tables.size() > 1 && values.count("output")) {
    for (const auto& [name, table] : tables) {
      write_text(fs::path(text_of(values, "output")) / (name + "." + ending),
                 render_layout(table, format));
    }
    return;
  }
  std::string text;
  for (const auto& [name, table] : tables) {
    text += (text.empty() ? "" : "\n") + render_layout(table, format);
  }
  write_output(values, text);
}

}  // namespace

void add_paired_options(po::options_description& options) {
  options.add_options()("margin", po::value<double>()->default_value(0.02),
                        "of speed, relative: what counts as the same")(
      "score-margin", po::value<double>()->default_value(0.02), "of the score, of 1")(
      "base", po::value<std::string>()->default_value(""),
      "label that all are compared with; default: each label's setting without the sweep");
}

std::string paired_report(const frame& rows, const po::variables_map& values, table_format format) {
  const ablation_margins margins{values["margin"].as<double>(),
                                 values["score-margin"].as<double>()};
  if (!(margins.speed > 0) || !(margins.score > 0)) {
    throw usage_error("--margin and --score-margin must be above 0");
  }
  const auto lines = paired_comparison(rows, margins, text_of(values, "base"));
  const auto effects = main_effects(rows, margins);
  return format == table_format::json ? ablation_json(lines, effects, margins)
                                      : render(ablation_tables(lines, effects, margins), format);
}

int command_table(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(options, "file; of paper tables of several runs a folder");
  add_format_option(options, "md, csv, latex or json; rows as json: the rows themselves");
  options.add_options()(
      "view", po::value<std::string>()->default_value("rows"),
      "rows; paired: each setting against its base, with verdicts; paper: as [layout] of the "
      "artifact arranges it, beside the published numbers; phases: of unmask profile; figures: "
      "what "
      "plots/ draws, as JSON")(
      "artifact", po::value<std::string>(),
      "experiment file, for the view paper of rows without a run.json beside them")(
      "scale", po::value<std::string>()->default_value(""), "of --artifact; default tiny");
  add_paired_options(options);
  add_experiments_option(options);
  po::variables_map values;
  if (!parse_command("table ROWS.jsonl|RUN... [options]", "", options, {"rows..."}, arguments,
                     values)) {
    return 0;
  }
  if (!values.count("rows")) throw usage_error("table needs files of rows");
  const table_format format = parse_table_format(text_of(values, "format"));
  const texts views = {"rows", "paired", "paper", "phases", "figures"};
  const std::string view = text_of(values, "view");
  if (std::ranges::find(views, view) == views.end()) {
    throw usage_error(unknown_name("view", view, views));
  }
  if (view == "paper") {
    write_paper_tables(values, format);
    return 0;
  }
  if (values.count("artifact")) throw usage_error("--artifact needs --view paper");
  const frame rows = rows_of(values, "table needs files of rows");
  write_output(values, view == "paired"    ? paired_report(rows, values, format)
                       : view == "phases"  ? render(phase_tables(rows.all()), format)
                       : view == "figures" ? json_text(figure_data(rows))
                                           : render_rows(rows, format));
  return 0;
}

int command_crossover(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(options, "file; default: standard output");
  add_format_option(options, "md, csv, latex or json");
  options.add_options()("base", po::value<std::string>()->default_value(""),
                        "label that speed-ups and scores are taken against")(
      "score-within", po::value<double>()->default_value(0.1),
      "what a method may lose of the base's score (without a base: of the best one's) and still "
      "win; 0 to 1, 1: whatever it answers")("across-models", "compare methods of all models");
  po::variables_map values;
  if (!parse_command("crossover ROWS.jsonl... [options]",
                     "\nA cell per model, workload, batch size and generation length; the winner "
                     "is the fastest method that answers well enough.\n",
                     options, {"rows..."}, arguments, values)) {
    return 0;
  }
  const table_format format = parse_table_format(text_of(values, "format"));
  const crossover_rule rule{text_of(values, "base"), values.count("across-models") > 0,
                            values["score-within"].as<double>()};
  if (!(rule.score_within >= 0 && rule.score_within <= 1)) {
    throw usage_error("--score-within is from 0 to 1");
  }
  const auto cells = crossover_cells(rows_of(values, "crossover needs files of rows"), rule);
  if (cells.empty()) throw usage_error("no row of these files has a throughput");
  write_output(values, format == table_format::json ? crossover_json(cells)
                                                    : render(crossover_table(cells), format));
  return 0;
}

int command_bundle(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(options, "FILE.tar");
  po::variables_map values;
  if (!parse_command("bundle RUN -o FILE.tar",
                     "\nPacks the directory of a run: rows, what was asked for, environment, "
                     "hashes. Another machine\nrepeats it with unmask rerun FILE.tar\n",
                     options, {"directory"}, arguments, values)) {
    return 0;
  }
  const fs::path directory = only_text(values, "directory", "bundle needs the directory of a run");
  if (!values.count("output")) throw usage_error("bundle needs -o FILE.tar");
  const fs::path file = text_of(values, "output");
  for (const std::string& name : write_bundle(directory, file)) fmt::print("  {}\n", name);
  fmt::print("{}\n", file.string());
  return 0;
}

int command_rerun(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(
      options, "folder in which the bundle is unpacked and repeated; default runs/rerun/BUNDLE");
  options.add_options()("no-progress", "no progress on standard error");
  add_speed_option(options);
  po::variables_map values;
  const char* epilogue =
      "\nRepeats the run of a bundle and compares: answers and counts must be the same, speed "
      "ratios within their\nintervals. From the root of the source tree, for models and tasks. "
      "exit code 4 when something differs\n";
  if (!parse_command("rerun BUNDLE.tar [options]", epilogue, options, {"bundle"}, arguments,
                     values)) {
    return 0;
  }
  const fs::path file = only_text(values, "bundle", "rerun needs a bundle");
  const fs::path place = values.count("output") ? fs::path(text_of(values, "output"))
                                                : fs::path("runs/rerun") / file.stem();
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
  run.progress = values.count("no-progress") == 0;
  const run_summary summary = run_experiment(spec, run);
  const run_comparison comparison =
      compare_runs(bundle.rows, read_rows(summary.file).rows, speeds_of(values));
  fmt::print("{}", comparison_text(comparison));
  return summary.failed > 0 ? summary.exit_status() : exit_status_of(comparison);
}

int command_compare(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(options, "file; default: standard output");
  add_speed_option(options);
  po::variables_map values;
  const char* epilogue =
      "\nTwo runs, rows files or whole campaigns of the same experiments: answers, scores and "
      "counts must be the same,\nspeed ratios within their intervals, all but as many as chance "
      "explains. exit code 4 when something differs\n";
  if (!parse_command("compare BEFORE AFTER [options]", epilogue, options, {"runs..."}, arguments,
                     values)) {
    return 0;
  }
  const texts runs = texts_of(values, "runs");
  if (runs.size() != 2) throw usage_error("compare needs two runs");
  const run_comparison comparison = compare_paths(runs[0], runs[1], speeds_of(values));
  write_output(values, comparison_text(comparison));
  return exit_status_of(comparison);
}

}  // namespace unmask
