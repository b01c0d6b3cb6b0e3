// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// ablation, crossover, bundle, rerun and compare.
#include <fmt/core.h>

#include <cstdio>
#include <iostream>

#include "harness/analysis/ablation.h"
#include "harness/experiment/bundle.h"
#include "harness/analysis/compare.h"
#include "harness/analysis/crossover.h"
#include "harness/experiment/request.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/paired_options.h"
#include "harness/experiment/needs.h"
#include "harness/experiment/runner.h"
#include "harness/analysis/store.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

using texts = std::vector<std::string>;

std::string only_text(const po::variables_map& values, const char* name, const char* what) {
  if (!values.count(name)) throw usage_error(what);
  return values[name].as<texts>().front();
}

std::vector<result_row> all_rows(const texts& files) {
  std::vector<result_row> rows;
  for (const std::string& file : files) {
    stored_rows stored = read_rows(file);
    if (stored.torn > 0) fmt::print(stderr, "{}: ignored a torn last line\n", file);
    std::move(stored.rows.begin(), stored.rows.end(), std::back_inserter(rows));
  }
  return rows;
}

void add_speed_option(po::options_description& options) {
  options.add_options()("ignore-speed",
                        "compare answers, scores and counts alone: for another machine, or one "
                        "with other work");
}

compared_speeds speeds_of(const po::variables_map& values) {
  return values.count("ignore-speed") ? compared_speeds::none : compared_speeds::ratios;
}

// False, after saying why, when this machine lacks something.
bool can_run(const experiment_spec& spec) {
  const std::string obstacle = cannot_run(spec, this_machine());
  if (!obstacle.empty()) fmt::print("{}\n", obstacle);
  return obstacle.empty();
}

}  // namespace

void add_paired_options(po::options_description& options) {
  options.add_options()("margin", po::value<double>()->default_value(0.02),
                        "of speed, relative: what counts as the same")(
      "score-margin", po::value<double>()->default_value(0.02), "of the score, of 1")(
      "base", po::value<std::string>()->default_value(""),
      "label that all are compared with; default: each label's setting without the sweep");
}

std::string paired_report(const std::vector<result_row>& rows, const po::variables_map& values,
                          const std::string& format) {
  ablation_margins margins{values["margin"].as<double>(), values["score-margin"].as<double>()};
  if (!(margins.speed > 0) || !(margins.score > 0)) {
    throw usage_error("--margin and --score-margin must be above 0");
  }
  if (format != "md" && format != "json") {
    throw usage_error(unknown_name("format of a comparison", format, {"md", "json"}));
  }
  const auto lines = paired_comparison(rows, margins, values["base"].as<std::string>());
  const auto effects = main_effects(rows, margins);
  return format == "json" ? ablation_json(lines, effects, margins)
                          : ablation_markdown(lines, effects, margins);
}

int command_ablation(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("output-dir,O", po::value<std::string>(),
                        "where rows are appended; default runs/ablation/EXPERIMENT")(
      "scale", po::value<std::string>()->default_value(""), "of an artifact; default tiny")(
      "set", po::value<texts>()->composing(), "KEY=VALUE over the file (repeatable)")(
      "format,o", po::value<std::string>()->default_value("md"), "md or json")(
      "fresh", "measure again what already has a row")("no-progress",
                                                       "no progress on standard error");
  add_paired_options(options);
  po::variables_map values;
  const char* epilogue =
      "\nMeasures all settings of the experiment in turn, forwards and backwards (ABBA), on the "
      "same "
      "prompts, at\nleast four times, then compares each with its base: sweep mode "
      "\"leave-one-out\" "
      "or \"factorial\".\nThe same view of rows that are there: unmask table ROWS --paired\n";
  if (!parse_command("ablation EXPERIMENT.toml [options]", epilogue, options, {"experiment"},
                     arguments, values)) {
    return 0;
  }
  run_request request;
  request.file = only_text(values, "experiment", "ablation needs an experiment file");
  request.scale = values["scale"].as<std::string>();
  // The user's own settings come after these and win.
  request.overrides = {"run.paired=true"};
  const experiment_spec plain = read_spec(request.file, request.scale);
  if (plain.evidence.min_repetitions < 4) request.overrides.emplace_back("run.repetitions.min=4");
  if (values.count("set")) {
    for (const std::string& s : values["set"].as<texts>()) request.overrides.push_back(s);
  }
  const experiment_spec spec = requested_spec(request);
  if (!can_run(spec)) return static_cast<int>(exit_code::environment);
  run_options run;
  run.output = values.count("output-dir") ? fs::path(values["output-dir"].as<std::string>())
                                          : fs::path("runs/ablation") / output_name(spec);
  run.resume = values.count("fresh") == 0;
  run.progress = values.count("no-progress") == 0;
  run.manifest = requested_manifest(request, spec);
  const run_summary summary = run_experiment(spec, run);
  fmt::print("{}", paired_report(read_rows(summary.file).rows, values,
                                 values["format"].as<std::string>()));
  std::fflush(stdout);
  fmt::print(stderr, "rows: {}\n", summary.file.string());
  return summary.exit_status();
}

int command_crossover(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("format,o", po::value<std::string>()->default_value("md"),
                        "md, or jsonl: one line per cell, for plots")(
      "base", po::value<std::string>()->default_value(""),
      "label that speed-ups and scores are taken against")(
      "score-within", po::value<double>()->default_value(crossover_rule{}.score_within, "0.1"),
      "what a method may lose of the base's score (without a base: of the best score) and still "
      "win, 0 to 1; 1: whatever it answers")("across-models",
                                             "compare methods on different models too");
  po::variables_map values;
  if (!parse_command("crossover ROWS.jsonl... [options]", "", options, {"rows..."}, arguments,
                     values)) {
    return 0;
  }
  if (!values.count("rows")) throw usage_error("crossover needs files of rows");
  const std::string format = values["format"].as<std::string>();
  if (format != "md" && format != "jsonl") {
    throw usage_error(unknown_name("format of a crossover map", format, {"md", "jsonl"}));
  }
  const double within = values["score-within"].as<double>();
  if (!(within >= 0 && within <= 1)) {
    throw usage_error(fmt::format("score-within is {}; it takes 0 to 1", within));
  }
  const std::vector<crossover_cell> cells = crossover_cells(
      all_rows(values["rows"].as<texts>()),
      {values["base"].as<std::string>(), values.count("across-models") > 0, within});
  if (cells.empty()) throw environment_error("no row of these files has a throughput");
  fmt::print("{}", format == "md" ? crossover_markdown(cells) : crossover_jsonl(cells));
  return 0;
}

int command_bundle(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(), "FILE.tar to write");
  po::variables_map values;
  if (!parse_command("bundle RUN_DIRECTORY -o FILE.tar", "", options, {"directory"}, arguments,
                     values)) {
    return 0;
  }
  const fs::path directory = only_text(values, "directory", "bundle needs the directory of a run");
  if (!values.count("output")) throw usage_error("bundle needs -o FILE.tar");
  const fs::path file = values["output"].as<std::string>();
  for (const std::string& name : write_bundle(directory, file)) fmt::print("  {}\n", name);
  fmt::print("{}\n", file.string());
  return 0;
}

int command_rerun(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("output-dir,O", po::value<std::string>(),
                        "where the bundle is unpacked and repeated; default runs/rerun/BUNDLE")(
      "no-progress", "no progress on standard error");
  add_speed_option(options);
  po::variables_map values;
  const char* epilogue =
      "\nRepeats the run of a bundle and compares: answers and counts must be the same, speed "
      "ratios "
      "within their\nintervals. From the root of the source tree, for models and tasks. exit code "
      "4 "
      "when something differs\n";
  if (!parse_command("rerun BUNDLE.tar [options]", epilogue, options, {"bundle"}, arguments,
                     values)) {
    return 0;
  }
  const fs::path file = only_text(values, "bundle", "rerun needs a bundle");
  const fs::path place = values.count("output-dir")
                             ? fs::path(values["output-dir"].as<std::string>())
                             : fs::path("runs/rerun") / file.stem();
  const unpacked_bundle bundle = read_bundle(file, place / "bundle");
  const run_manifest& m = bundle.manifest;
  experiment_spec spec = parse_spec(m.text, m.file, m.scale);
  for (const std::string& assignment : m.overrides) apply_override(spec, assignment);
  if (!can_run(spec)) return static_cast<int>(exit_code::environment);
  run_options run;
  run.output = place / "rows";
  run.progress = values.count("no-progress") == 0;
  const run_summary summary = run_experiment(spec, run);
  const run_comparison comparison =
      compare_runs(bundle.rows, read_rows(summary.file).rows, speeds_of(values));
  fmt::print("{}", comparison_text(comparison));
  if (summary.failed > 0) return summary.exit_status();
  return static_cast<int>(comparison.same() ? exit_code::ok : exit_code::not_reproduced);
}

int command_compare(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_speed_option(options);
  po::variables_map values;
  const char* epilogue =
      "\nTwo runs, rows files or whole campaigns of the same experiments: answers, scores and "
      "counts "
      "must be the same,\nspeed ratios within their intervals, all but as many as chance explains. "
      "exit code 4 when something differs\n";
  if (!parse_command("compare BEFORE AFTER [options]", epilogue, options, {"runs..."}, arguments,
                     values)) {
    return 0;
  }
  const texts runs = values.count("runs") ? values["runs"].as<texts>() : texts{};
  if (runs.size() != 2) throw usage_error("compare needs two runs");
  const run_comparison comparison = compare_paths(runs[0], runs[1], speeds_of(values));
  fmt::print("{}", comparison_text(comparison));
  return static_cast<int>(comparison.same() ? exit_code::ok : exit_code::not_reproduced);
}

}  // namespace unmask
