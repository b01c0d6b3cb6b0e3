// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask bench: methods x shapes of one model in one line. Prompts are random tokens; the runner, its
// stopping rule, rows and table are those of `unmask run`.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "harness/analysis/table.h"
#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/experiment/profiled.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

sweep_axis axis_of(const std::string& key, const std::vector<std::int64_t>& values) {
  return {key, {values.begin(), values.end()}, "--" + key};
}

// A folder that holds nothing yet: a benchmark is looked at once.
fs::path fresh_folder(const fs::path& wanted) {
  fs::path place = wanted;
  std::error_code none;
  for (int i = 2; fs::exists(place, none); ++i) {
    place = wanted.parent_path() / fmt::format("{}-{}", wanted.filename().string(), i);
  }
  return place;
}

}  // namespace

int command_bench(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  add_output_option(options, "folder for the rows; default runs/bench/MODEL, then -2, -3, ...");
  add_format_option(options, "of the table: md, csv, latex, json");
  auto add = options.add_options();
  add("prompt-tokens,p", po::value<texts>()->composing(), "of random prompts, a,b; default 128");
  add("gen-length,n", po::value<texts>()->composing(), "tokens of the canvas, a,b; default 64");
  add("batch-size,b", po::value<texts>()->composing(), "requests at a time, a,b; default 1");
  add("requests", po::value<int>()->default_value(0),
      "prompts of each length; default: the largest batch size");
  add("no-progress", "no progress on standard error");
  add_model_options(options, 5);
  po::variables_map values;
  if (!parse_command("bench MODEL [options]",
                     "\nMethods in turn on the same prompts; rows never carry a score.\nexample: "
                     "unmask bench experiments/models/tiny-llada -m vanilla,fast_dllm,focus_dllm "
                     "-p 512,2048 -n 128 -b 1,8\n",
                     options, {"model"}, arguments, values)) {
    return 0;
  }
  if (!values.count("model")) throw usage_error("bench needs a model folder");
  const table_format format = parse_table_format(text_of(values, "format"));
  const fs::path model = texts_of(values, "model").front();
  const auto or_else = [&](const char* name, std::int64_t otherwise) {
    const std::vector<std::int64_t> given = numbers_of(values, name, 1);
    return given.empty() ? std::vector<std::int64_t>{otherwise} : given;
  };
  const std::vector<std::int64_t> batches = or_else("batch-size", 1);
  const std::vector<std::int64_t> lengths = or_else("gen-length", 64);
  const int asked = at_least(values, "requests", 0);
  const std::int64_t requests = asked > 0 ? asked : std::ranges::max(batches);
  experiment_spec spec = spec_of_model(model, values);
  spec.title = "Benchmark of " + spec.models.front().name;
  spec.evidence.max_repetitions = at_least(values, "repetitions", 1);
  spec.evidence.min_repetitions = std::min<std::int64_t>(3, spec.evidence.max_repetitions);
  // Rows keep the swept settings, also where there is one value of each.
  spec.axes = {axis_of("gen_length", lengths), axis_of("batch_size", batches)};
  run_options run;
  run.output = values.count("output") ? fs::path(text_of(values, "output"))
                                      : fresh_folder(fs::path("runs") / "bench" / model.stem());
  run.progress = values.count("no-progress") == 0;
  std::vector<result_row> rows;
  std::size_t failed = 0;
  for (const std::int64_t prompt : or_else("prompt-tokens", 128)) {
    workload_entry workload;
    workload.name = fmt::format("{} random tokens", prompt);
    workload.items.limit = requests;
    spec.workloads = {workload};
    const std::unique_ptr<executor> with =
        make_shape_executor({prompt, requests, values["layers"].as<int>()});
    const run_summary summary = run_experiment(spec, run, *with);
    std::ranges::copy(summary.rows, std::back_inserter(rows));
    failed += summary.failed;
  }
  fmt::print("{}", render_rows(frame(rows), format));
  std::fflush(stdout);
  fmt::print(stderr, "rows: {}\n", run.output.string());
  return static_cast<int>(failed > 0 ? exit_code::run_failed : exit_code::ok);
}

}  // namespace unmask
