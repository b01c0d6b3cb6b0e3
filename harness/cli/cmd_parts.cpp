// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Runs that outgrow one machine: a plan as a scheduler's job array, and its rows merged again.
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/cli/terminal.h"
#include "harness/experiment/device.h"
#include "harness/experiment/forecast.h"
#include "harness/experiment/merge.h"
#include "harness/experiment/needs.h"
#include "harness/experiment/request.h"
#include "harness/experiment/runner.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using words = std::vector<std::string>;

struct planned_experiment {
  fs::path file;
  fs::path rows;  // below the output directory
  std::size_t points = 0;
  plan_forecast expected;
  std::string obstacle;   // why it cannot run on this machine
  std::string no_device;  // the part of that which is about its device
};

planned_experiment planned(const run_request& request, const device_ceilings& device) {
  const experiment_spec spec = requested_spec(request);
  planned_experiment plan{fs::absolute(request.file), output_name(spec), 0, {}, "", ""};
  plan.obstacle = cannot_run(spec, this_machine());
  try {
    choose_devices(spec);
  } catch (const error& missing) {
    plan.no_device = missing.what();
  }
  if (spec.models.empty()) return plan;
  plan.expected = forecast_of(spec, make_plan(spec, make_executor()->methods()), device);
  plan.points = plan.expected.points;
  return plan;
}

// As many parts as asked for, and no more than there are points to measure.
void add_parts(array_request& array, const planned_experiment& plan, const run_request& request,
               std::size_t shards) {
  const std::size_t count = std::min(std::max<std::size_t>(shards, 1), plan.points);
  for (std::size_t i = 0; i < count; ++i) {
    words command = {this_program().string(), "run",      plan.file.string(),
                     "--no-progress",         "--output", (array.directory / plan.rows).string()};
    if (count > 1) command.insert(command.end(), {"--shard", fmt::format("{}/{}", i, count)});
    if (!request.scale.empty()) command.insert(command.end(), {"--scale", request.scale});
    for (const std::string& setting : request.overrides) {
      command.insert(command.end(), {"--set", setting});
    }
    array.parts.push_back(std::move(command));
  }
}

}  // namespace

int command_plan(const words& arguments) {
  const option_table options = {
      output_option(
          "folder of the job array: rows, logs and the script array.sh; default runs/array"),
      {"scale", no_default, "of an artifact: tiny (default), shapes, full"},
      {"gpu", std::string("h100"), "whose hours: h100, h200, a100"},
      {"scheduler", no_default, "slurm: also write a job array for it"},
      {"shards", 1, "tasks per experiment"},
      {"sbatch", repeated(), "one more directive, e.g. --sbatch=--gres=gpu:1 (repeatable)"}};
  const command_line line("plan EXPERIMENT.toml... [options]", options + settings_options(),
                          {"experiment..."}, arguments);
  line.place("experiment", "plan needs experiment files");
  const std::int64_t shards = line.within("shards", 1, 100000);
  const std::string scheduler = line.text("scheduler");
  const bool slurm = !scheduler.empty();
  if (slurm && scheduler != "slurm") {
    throw usage_error(unknown_name("scheduler", scheduler, {"slurm"}));
  }
  array_request array;
  array.directory = fs::absolute(line.text("output", "runs/array"));
  array.directives = line.list("sbatch");
  std::string table =
      "| experiment | points | answers | forwards, at most | GPU hours | on this machine |\n"
      "|---|---:|---:|---:|---:|---|\n";
  std::string no_device;
  const device_ceilings& device = ceilings_of(line.text("gpu"));
  for (const std::string& file : line.list("experiment")) {
    const run_request request{file, line.text("scale"), line.settings()};
    const planned_experiment plan = planned(request, device);
    table +=
        fmt::format("| {} | {} | {} | {:.0f} | {:.1f} | {} |\n", plan.rows.string(), plan.points,
                    plan.expected.answers, plan.expected.forwards, plan.expected.gpu_hours,
                    plan.obstacle.empty() ? "can run" : plan.obstacle);
    if (no_device.empty()) no_device = plan.no_device;
    add_parts(array, plan, request, static_cast<std::size_t>(shards));
  }
  print_tables(table);
  // A job array may be for other machines; a plan alone is for this one.
  if (!slurm && !no_device.empty()) throw environment_error(no_device);
  if (!slurm) return 0;
  const fs::path script = array.directory / "array.sh";
  write_file(script, slurm_script(array));
  print("\n{} tasks. Submit them with: sbatch {}\nThen: unmask merge {} -o rows.jsonl\n",
        array.parts.size(), script.string(), array.directory.string());
  return 0;
}

int command_merge(const words& arguments) {
  const command_line line(
      "merge ROWS... -o FILE [options]",
      {output_option("the file to write"),
       {"mixed-environments", flag(), "also where machines, builds or drivers differ"}},
      {"rows..."}, arguments);
  line.place("rows", "merge needs files or directories of rows");
  if (!line.given("output")) throw usage_error("merge needs -o FILE");
  const words rows = line.list("rows");
  const std::vector<fs::path> sources(rows.begin(), rows.end());
  const fs::path output = line.text("output");
  const merge_summary sum = merge_rows(sources, output, line.given("mixed-environments"));
  print("{} points in {}", sum.points, output.string());
  if (sum.superseded > 0) print(", {} earlier attempts left out", sum.superseded);
  if (!sum.unsettled.empty()) print(", {} FAILED", sum.unsettled.size());
  print("\n");
  if (sum.missing.empty()) return static_cast<int>(exit_code::ok);
  tell("{} planned points have no row yet, the first is {}; submit the array again\n",
       sum.missing.size(), sum.missing.front());
  return static_cast<int>(exit_code::run_failed);
}

}  // namespace unmask
