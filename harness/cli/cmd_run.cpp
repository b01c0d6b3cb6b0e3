// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "harness/artifact/layout.h"
#include "harness/artifact/request.h"
#include "harness/base/error.h"
#include "harness/base/run_keys.h"
#include "harness/cli/command.h"
#include "harness/cli/paired_options.h"
#include "harness/experiment/needs.h"
#include "harness/experiment/runner.h"
#include "harness/experiment/serve_settings.h"
#include "harness/experiment/store.h"
#include "harness/experiment/table.h"

namespace unmask {
namespace po = boost::program_options;

namespace {

std::string run_epilogue() {
  return "\nA scale that needs what this machine lacks is not started: NOT RUN: needs ..., exit "
         "code "
         "3.\n\n";
}

bool wants_layout(const po::variables_map& values) {
  if (!values.count("layout")) {
    if (values.count("artifact")) throw usage_error("--artifact needs --layout paper");
    return false;
  }
  const std::string name = values["layout"].as<std::string>();
  if (name != "paper") throw usage_error(unknown_name("layout", name, {"paper"}));
  if (!values.count("artifact")) {
    throw usage_error("--layout paper needs --artifact FILE, the experiment that has [layout]");
  }
  return true;
}

}  // namespace

int command_run(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("output-dir,O", po::value<std::string>(),
                        "where rows are appended; default runs/EXPERIMENT")(
      "set", po::value<std::vector<std::string>>()->composing(),
      "KEY=VALUE over the file, by the same dotted keys (repeatable), e.g. run.batch_size=4")(
      "scale", po::value<std::string>()->default_value(""),
      "of an artifact: tiny (default), shapes, full; see unmask list experiments")(
      "shard", po::value<std::string>(), "i/n: only every n-th point, from the i-th (from 0)")(
      "dry-run", "print the plan and stop")(
      "fresh", "measure again what already has a row, and let the new row count (default: resume)")(
      "log-samples,s", "also store every answer with its score")(
      "format,o", po::value<std::string>()->default_value("md"),
      "of the table: md, csv, json, jsonl")("no-progress", "no progress on standard error");
  po::variables_map values;
  if (!parse_command("run EXPERIMENT.toml [options]",
                     run_epilogue() + run_help() + "\n" + serve_help(), options, {"experiment"},
                     arguments, values)) {
    return 0;
  }
  if (!values.count("experiment")) {
    throw usage_error("run needs an experiment file; see unmask list experiments");
  }
  const std::filesystem::path file = values["experiment"].as<std::vector<std::string>>().front();
  const table_format format = parse_table_format(values["format"].as<std::string>());
  run_request request{file, values["scale"].as<std::string>(), {}};
  if (values.count("set")) request.overrides = values["set"].as<std::vector<std::string>>();
  const experiment_spec spec = requested_spec(request);
  run_options run;
  run.output = values.count("output-dir")
                   ? std::filesystem::path(values["output-dir"].as<std::string>())
                   : std::filesystem::path("runs") / output_name(spec);
  if (values.count("shard")) run.part = parse_shard(values["shard"].as<std::string>());
  run.dry_run = values.count("dry-run") > 0;
  run.resume = values.count("fresh") == 0;
  run.log_samples = values.count("log-samples") > 0;
  run.progress = values.count("no-progress") == 0;
  const std::string obstacle = cannot_run(spec, this_machine());
  if (!obstacle.empty() && (!run.dry_run || spec.models.empty())) {
    fmt::print("{}\n", obstacle);
    return static_cast<int>(run.dry_run ? exit_code::ok : exit_code::environment);
  }
  run.manifest = requested_manifest(request, spec);
  const run_summary summary = run_experiment(spec, run);
  if (run.dry_run) {
    if (!obstacle.empty()) fmt::print("{}\n", obstacle);
    return 0;
  }

  // Rows measured earlier belong to the same table.
  std::vector<result_row> rows = summary.rows;
  if (summary.skipped > 0) rows = read_rows(summary.file).rows;
  fmt::print("{}", render_table(rows, format));
  std::fflush(stdout);  // the two streams may share a file
  fmt::print(stderr, "{} of {} points measured", summary.measured, summary.planned);
  if (summary.skipped > 0) {
    fmt::print(stderr, ", {} had a row already (--fresh measures again)", summary.skipped);
  }
  if (summary.failed > 0) fmt::print(stderr, ", {} FAILED or INVALID", summary.failed);
  fmt::print(stderr, "\nrows: {}\n", summary.file.string());
  return summary.exit_status();
}

int command_table(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("format,o", po::value<std::string>()->default_value("md"),
                        "md, csv, json or jsonl; of a paper's layout md, csv or latex")(
      "layout", po::value<std::string>(),
      "paper: as [layout] of the artifact arranges it, beside the published numbers")(
      "artifact", po::value<std::string>(), "experiment file of the artifact, for --layout paper")(
      "scale", po::value<std::string>()->default_value(""), "of the artifact; default tiny")(
      "paired", "each setting against its base, with verdicts (md or json)");
  add_paired_options(options);
  po::variables_map values;
  if (!parse_command("table ROWS.jsonl... [options]", "", options, {"rows..."}, arguments,
                     values)) {
    return 0;
  }
  if (!values.count("rows")) throw usage_error("table needs files of rows");
  const std::string named_format = values["format"].as<std::string>();
  const bool paper = wants_layout(values), paired = values.count("paired") > 0;
  const table_format format = paper || paired ? table_format::md : parse_table_format(named_format);
  if (paper) parse_layout_format(named_format);  // before anything is read
  std::vector<result_row> rows;
  for (const std::string& file : values["rows"].as<std::vector<std::string>>()) {
    stored_rows stored = read_rows(file);
    if (stored.torn > 0) fmt::print(stderr, "{}: ignored a torn last line\n", file);
    std::move(stored.rows.begin(), stored.rows.end(), std::back_inserter(rows));
  }
  if (paired) {
    fmt::print("{}", paired_report(rows, values, named_format));
    return 0;
  }
  if (paper) {
    const paper_layout layout =
        read_layout(values["artifact"].as<std::string>(), values["scale"].as<std::string>());
    fmt::print("{}", render_layout(lay_out(layout, rows), parse_layout_format(named_format)));
    return 0;
  }
  fmt::print("{}", render_table(rows, format));
  return 0;
}

}  // namespace unmask
