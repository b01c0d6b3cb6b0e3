// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask bench: methods x shapes of one model in one line. Prompts are random tokens; the runner, its
// stopping rule, rows and table are those of `unmask run`.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/output.h"
#include "harness/cli/command.h"
#include "harness/cli/kernel_turns.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/cli/terminal.h"
#include "harness/decode/registry.h"
#include "harness/rows/table.h"
#include "harness/run/runner.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

sweep_axis axis_of(const std::string& key, const std::vector<std::int64_t>& values) {
  return {key, {values.begin(), values.end()}, "--" + key};
}

option_table bench_options() {
  return option_table{
             output_option(
                 "write the rows into this folder (default: runs/bench/MODEL, then -2, -3)"),
             format_option("print the table as md, csv, latex or json"),
             {"prompt-tokens,p", repeated(),
              "make random prompts of N,N,... tokens (default: 128)"},
             {"gen-length,n", repeated(), "generate N,N,... tokens (default: 64)"},
             {"batch-size,b", repeated(), "decode N,N,... requests at a time (default: 1)"},
             {"requests", 0, "make N prompts of each length (0: as many as the largest batch)"},
             {"no-progress", flag(), "show no progress on standard error"},
             ranks_option()} +
         kernel_options() + model_options(5);
}

// The preset of a method that holds its paper's or its authors' settings; null: it has none.
const std::pair<const std::string, parameter_map>* published_preset(const method_info& method) {
  for (const char* name : {"paper", "official"}) {
    const auto at = method.presets.find(name);
    if (at != method.presets.end()) return &*at;
  }
  return nullptr;
}

// One sentence for each method that these rows measured at other settings than its paper's.
void tell_other_settings(const row_table& rows) {
  std::vector<std::string> told;
  for (const result_row* row : rows.reportable()) {
    const auto* preset = published_preset(method_registry::instance().find(row->method));
    if (!preset || std::ranges::find(told, row->method) != told.end()) continue;
    std::string differs;
    for (const auto& [key, value] : preset->second) {
      const auto at = row->params.find(key);
      if (at == row->params.end() || to_string(at->second) == to_string(value)) continue;
      differs += fmt::format("{}{}={}, not {}", differs.empty() ? "" : "; ", key,
                             to_string(at->second), to_string(value));
    }
    if (differs.empty()) continue;
    told.push_back(row->method);
    tell("note: {} ran without its published settings ({}); --preset {} takes them\n", row->method,
         differs, preset->first);
  }
}

}  // namespace

int command_bench(const texts& arguments) {
  const command_line line("bench MODEL [options]", bench_options(), {"model"}, arguments,
                          "Measures all methods in turn on the same random prompts. Random prompts "
                          "have no right answer, so no row has a score.");
  if (line.given("kernels")) return bench_kernels(line);
  const fs::path given = line.place("model", "bench needs a model folder");
  const table_format format = line.format();
  const auto or_else = [&](const char* name, std::int64_t otherwise, std::int64_t most) {
    const std::vector<std::int64_t> numbers = line.numbers(name, 1, most);
    return numbers.empty() ? std::vector<std::int64_t>{otherwise} : numbers;
  };
  const std::vector<std::int64_t> prompts = or_else("prompt-tokens", 128, 1 << 24);
  const std::vector<std::int64_t> batches = or_else("batch-size", 1, 1 << 20);
  const std::vector<std::int64_t> lengths = or_else("gen-length", 64, 1 << 24);
  const std::int64_t asked = line.within("requests", 0, 1 << 20);
  const std::int64_t requests = asked > 0 ? asked : std::ranges::max(batches);
  experiment_spec spec = spec_of_model(given, line);
  const fs::path model = spec.models.front().path;
  check_prompts(model, requests, std::ranges::max(prompts), std::ranges::max(lengths));
  spec.title = "Benchmark of " + spec.models.front().name;
  spec.evidence.max_repetitions = line.within("repetitions", 1, 100000);
  spec.evidence.min_repetitions = std::min<std::int64_t>(3, spec.evidence.max_repetitions);
  // Rows keep the swept settings, also where there is one value of each.
  spec.axes = {axis_of("gen_length", lengths), axis_of("batch_size", batches)};
  run_options run;
  run.output = line.given("output") ? fs::path(line.text("output"))
                                    : fresh_folder(fs::path("runs") / "bench" / model.stem());
  run.continues = line.given("output");
  run.progress = !line.given("no-progress");
  for (const std::int64_t prompt : prompts) {
    workload_entry workload;
    workload.name = fmt::format("{} random tokens", prompt);
    workload.items.limit = requests;
    workload.prompt_tokens = prompt;
    spec.workloads.push_back(workload);
  }
  const run_summary summary = run_experiment(spec, run);
  const row_table rows = summary.of_plan();
  tell_unfit(rows);
  print_tables(render_rows(rows, format));
  tell_other_settings(rows);
  tell("rows: {}\n", run.output.string());
  return summary.not_supported > 0 ? static_cast<int>(exit_code::run_failed)
                                   : summary.exit_status();
}

}  // namespace unmask
