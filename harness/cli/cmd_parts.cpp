// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Runs that outgrow one machine: a plan as a scheduler's job array, and its rows merged again.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <fmt/core.h>

#include "harness/base/error.h"
#include "harness/base/process.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/experiment/forecast.h"
#include "harness/experiment/job_array.h"
#include "harness/experiment/merge.h"
#include "harness/experiment/needs.h"
#include "harness/experiment/request.h"
#include "harness/experiment/runner.h"

namespace unmask {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;
using words = std::vector<std::string>;

struct planned_experiment {
  fs::path file;
  fs::path rows;  // below the output directory
  std::size_t points = 0;
  plan_forecast expected;
  std::string obstacle;  // why it cannot run on this machine
};

planned_experiment planned(const run_request& request, const device_ceilings& device) {
  const experiment_spec spec = requested_spec(request);
  planned_experiment plan{fs::absolute(request.file), output_name(spec), 0, {}, ""};
  plan.obstacle = cannot_run(spec, this_machine());
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
    array.parts.push_back({std::move(command)});
  }
}

}  // namespace

int command_plan(const words& arguments) {
  po::options_description options("options");
  add_output_option(
      options, "folder of the job array: rows, logs and the script array.sh; default runs/array");
  add_settings_option(options);
  add_device_option(options);
  options.add_options()("scale", po::value<std::string>()->default_value(""),
                        "of an artifact: tiny (default), shapes, full")(
      "gpu", po::value<std::string>()->default_value("h100"), "whose hours: h100, h200, a100")(
      "scheduler", po::value<std::string>(), "slurm: also write a job array for it")(
      "shards", po::value<int>()->default_value(1), "tasks per experiment")(
      "sbatch", po::value<words>()->composing(),
      "one more directive, e.g. --sbatch=--gres=gpu:1 (repeatable)");
  po::variables_map values;
  if (!parse_command("plan EXPERIMENT.toml... [options]", "", options, {"experiment..."}, arguments,
                     values)) {
    return 0;
  }
  if (!values.count("experiment")) throw usage_error("plan needs experiment files");
  const int shards = values["shards"].as<int>();
  if (shards < 1) throw usage_error("--shards is at least 1");
  const bool slurm = values.count("scheduler") > 0;
  if (slurm && values["scheduler"].as<std::string>() != "slurm") {
    throw usage_error(unknown_name("scheduler", values["scheduler"].as<std::string>(), {"slurm"}));
  }
  array_request array;
  array.directory = fs::absolute(values.count("output") ? text_of(values, "output") : "runs/array");
  array.directives = texts_of(values, "sbatch");
  fmt::print(
      "| experiment | points | answers | forwards, at most | GPU hours | on this machine |\n"
      "|---|---:|---:|---:|---:|---|\n");
  const device_ceilings& device = ceilings_of(text_of(values, "gpu"));
  for (const std::string& file : values["experiment"].as<words>()) {
    const run_request request{file, values["scale"].as<std::string>(), settings_of(values)};
    const planned_experiment plan = planned(request, device);
    fmt::print("| {} | {} | {} | {:.0f} | {:.1f} | {} |\n", plan.rows.string(), plan.points,
               plan.expected.answers, plan.expected.forwards, plan.expected.gpu_hours,
               plan.obstacle.empty() ? "can run" : plan.obstacle);
    add_parts(array, plan, request, static_cast<std::size_t>(shards));
  }
  if (!slurm) return 0;
  fs::create_directories(array.directory);
  const fs::path script = array.directory / "array.sh";
  std::ofstream out(script, std::ios::binary);
  out << slurm_script(array);
  out.close();
  if (!out) throw environment_error("cannot write " + script.string());
  fmt::print("\n{} tasks. Submit them with: sbatch {}\nThen: unmask merge {} -o rows.jsonl\n",
             array.parts.size(), script.string(), array.directory.string());
  return 0;
}

int command_merge(const words& arguments) {
  po::options_description options("options");
  options.add_options()("output,o", po::value<std::string>(), "the file to write")(
      "mixed-environments", "also where machines, builds or drivers differ");
  po::variables_map values;
  if (!parse_command("merge ROWS... -o FILE [options]", "", options, {"rows..."}, arguments,
                     values)) {
    return 0;
  }
  if (!values.count("rows")) throw usage_error("merge needs files or directories of rows");
  if (!values.count("output")) throw usage_error("merge needs -o FILE");
  std::vector<fs::path> sources;
  for (const std::string& source : values["rows"].as<words>()) sources.emplace_back(source);
  const fs::path output = values["output"].as<std::string>();
  const merge_summary sum = merge_rows(sources, output, values.count("mixed-environments") > 0);
  fmt::print("{} points in {}", sum.points, output.string());
  if (sum.superseded > 0) fmt::print(", {} earlier attempts left out", sum.superseded);
  if (!sum.unsettled.empty()) fmt::print(", {} FAILED", sum.unsettled.size());
  fmt::print("\n");
  if (sum.missing.empty()) return static_cast<int>(exit_code::ok);
  fmt::print(stderr, "{} planned points have no row yet, the first is {}; submit the array again\n",
             sum.missing.size(), sum.missing.front());
  return static_cast<int>(exit_code::run_failed);
}

}  // namespace unmask
