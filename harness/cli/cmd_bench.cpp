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
#include "harness/experiment/runner.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

sweep_axis axis_of(const std::string& key, const std::vector<std::int64_t>& values) {
  return {key, {values.begin(), values.end()}, "--" + key};
}

}  // namespace

int command_bench(const texts& arguments) {
  const option_table options = {
      output_option("folder for the rows; default runs/bench/MODEL, then -2, -3, ..."),
      format_option("of the table: md, csv, latex, json"),
      {"prompt-tokens,p", repeated(), "of random prompts, a,b; default 128"},
      {"gen-length,n", repeated(), "tokens of the canvas, a,b; default 64"},
      {"batch-size,b", repeated(), "requests at a time, a,b; default 1"},
      {"requests", 0, "prompts of each length; default: the largest batch size"},
      {"no-progress", flag(), "no progress on standard error"}};
  const command_line line(
      "bench MODEL [options]", options + model_options(5), {"model"}, arguments,
      "\nMethods in turn on the same prompts; rows never carry a score.\nexample: unmask bench "
      "experiments/models/tiny-llada -m vanilla,fast_dllm,focus_dllm -p 512,2048 -n 128 -b 1,8\n");
  const fs::path model = line.place("model", "bench needs a model folder");
  const table_format format = line.format();
  const auto or_else = [&](const char* name, std::int64_t otherwise) {
    const std::vector<std::int64_t> given = line.numbers(name, 1);
    return given.empty() ? std::vector<std::int64_t>{otherwise} : given;
  };
  const std::vector<std::int64_t> batches = or_else("batch-size", 1);
  const std::vector<std::int64_t> lengths = or_else("gen-length", 64);
  const std::int64_t asked = line.at_least("requests", 0);
  const std::int64_t requests = asked > 0 ? asked : std::ranges::max(batches);
  experiment_spec spec = spec_of_model(model, line);
  spec.title = "Benchmark of " + spec.models.front().name;
  spec.evidence.max_repetitions = line.at_least("repetitions", 1);
  spec.evidence.min_repetitions = std::min<std::int64_t>(3, spec.evidence.max_repetitions);
  // Rows keep the swept settings, also where there is one value of each.
  spec.axes = {axis_of("gen_length", lengths), axis_of("batch_size", batches)};
  run_options run;
  run.output = line.given("output") ? fs::path(line.text("output"))
                                    : fresh_folder(fs::path("runs") / "bench" / model.stem());
  run.continues = line.given("output");
  run.progress = !line.given("no-progress");
  for (const std::int64_t prompt : or_else("prompt-tokens", 128)) {
    workload_entry workload;
    workload.name = fmt::format("{} random tokens", prompt);
    workload.items.limit = requests;
    workload.prompt_tokens = prompt;
    spec.workloads.push_back(workload);
  }
  const run_summary summary = run_experiment(spec, run);
  fmt::print("{}", render_rows(summary.of_plan(), format));
  std::fflush(stdout);
  fmt::print(stderr, "rows: {}\n", run.output.string());
  return summary.exit_status();
}

}  // namespace unmask
