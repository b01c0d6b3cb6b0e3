// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask profile: an experiment (of a file, or made up here for one model and one method) whose
// points are watched by a tool, or the command line of an external profiler around that.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/process.h"
#include "harness/cli/command.h"
#include "harness/cli/model_spec.h"
#include "harness/cli/options.h"
#include "harness/cli/terminal.h"
#include "harness/devices/device.h"
#include "harness/devices/environment.h"
#include "harness/measure/profiled.h"
#include "harness/model/config.h"
#include "harness/plan/needs.h"
#include "harness/plan/request.h"
#include "harness/profile/cupti_trace.h"
#include "harness/profile/tool_commands.h"
#include "harness/rows/glossary.h"
#include "harness/rows/json_of.h"
#include "harness/rows/table.h"
#include "harness/run/runner.h"
#include "kernels/cuda/device.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

const std::vector<std::string> tools = {"phases", "nvtx", "cupti", "nsys", "ncu"};

option_table profile_options() {
  return option_table{
             output_option(
                 "write rows and reports into this folder (default: runs/profile/TARGET)"),
             {"tool,t", std::string("phases"),
              "measure with this tool. phases: time, rows, FLOPs and bytes of every phase; nvtx: "
              "only ranges, for a profiler of yours; cupti: kernels and counters by phase; nsys, "
              "ncu: Nsight Systems, Nsight Compute. cupti, nsys and ncu need cuda"},
             {"print-command", flag(), "print the command line of nsys or ncu and stop"},
             {"phase", repeated(),
              "ncu: profile kernels of this phase only (repeatable; names in "
              "harness/profile/README.md)"},
             {"launch-count", 20, "ncu: profile at most N kernels"},
             {"trace", no_default, "write the profiled pass as a Chrome trace (Perfetto reads it)"},
             {"order", std::string("time"),
              "sort the phases. time: the longest first; step: in the order of a step"},
             {"no-counters", flag(),
              "cupti: measure only the times of kernels; counters wait for the device at every "
              "phase"},
             {"no-roofs", flag(),
              "skip measuring the roofs of the machine; rows then have no share of them"},
             {"task", no_default, "decode items of this task (default: word_problem)"},
             {"limit", 4, "decode N items of the task, or N random prompts"},
             {"prompt-tokens,p", 0,
              "decode random prompts of N tokens instead of a task (0: the task)"},
             {"gen-length,n", 0, "generate N tokens (0: as many as the task says)"},
             {"batch-size,b", 1, "decode N requests at a time"},
             ranks_option(),
             format_option(
                 "print the tables of phases, or nsys' and ncu's commands, as md or json")} +
         model_options(3);
}

experiment_spec spec_of_target(const fs::path& directory, const command_line& line) {
  experiment_spec spec = spec_of_model(directory, line);
  spec.title = "Profile of " + spec.models.front().name;
  workload_entry workload;
  workload.items.limit = line.within("limit", 1, 1 << 20);
  if (line.within("prompt-tokens", 0, 1 << 24) > 0) {
    workload.prompt_tokens = line.whole("prompt-tokens");
    check_prompts(spec.models.front().path, workload.items.limit, workload.prompt_tokens,
                  line.within("gen-length", 0, 1 << 24));
    workload.name = fmt::format("{} + {} random tokens", workload.prompt_tokens,
                                line.at_least("gen-length", 1));
  } else {
    workload.name = line.text("task", "word_problem");
    workload.file = find_task(workload.name, {});
  }
  spec.workloads.push_back(workload);
  spec.run.batch_size = line.within("batch-size", 1, 1 << 20);
  spec.run.gen_length = line.within("gen-length", 0, 1 << 24);
  return spec;
}

experiment_spec spec_of_file(const fs::path& file, const command_line& line) {
  experiment_spec spec = requested_spec({file, "", {}, {}, {}});
  for (const std::string& assignment : line.settings()) apply_override(spec, assignment);
  const texts wanted = line.parts("method");
  if (!wanted.empty()) {
    const std::vector<std::string> known = names_in(spec.methods, &method_entry::label);
    for (const std::string& w : wanted) {
      const bool there = std::ranges::any_of(
          spec.methods, [&](const method_entry& m) { return m.name == w || m.label == w; });
      if (!there) throw usage_error(unknown_name("method of " + file.string(), w, known));
    }
    std::erase_if(spec.methods, [&](const method_entry& m) {
      return std::ranges::find(wanted, m.name) == wanted.end() &&
             std::ranges::find(wanted, m.label) == wanted.end();
    });
  }
  spec.probe = {};  // probes observe too; one observer at a time
  return spec;
}

// The program and its arguments for the child of a profiler: as called, without what concerns the
// tool, and with one bare `measure` range.
std::vector<std::string> child_command(const std::vector<std::string>& arguments,
                                       const std::string& device) {
  std::vector<std::string> child = {this_program().string(), "profile"};
  const std::vector<std::string> dropped = {
      "--tool",        "-t",       "--phase", "--launch-count", "--trace",
      "--repetitions", "--output", "-o",      "--device",       "--format"};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (a == "--print-command" || a == "--print_command") continue;
    std::string name = a.substr(0, a.find('='));
    std::replace(name.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, name.size())),
                 name.end(), '_', '-');
    if (std::ranges::find(dropped, name) != dropped.end()) {
      if (name.size() == a.size()) ++i;  // its value is the next word
      continue;
    }
    child.push_back(a);
  }
  child.insert(child.end(), {"--device=" + device, "--tool=nvtx", "--repetitions=1"});
  return child;
}

bool wants_json(const command_line& line) {
  return parse_table_format(line.text("format"), {"md", "json"}) == table_format::json;
}

int not_run(const std::string& why, const command_line& line) {
  if (wants_json(line)) print("{}", json_text({{"not_run", why}}));
  if (!wants_json(line)) print("NOT RUN: {}\n", why);
  return static_cast<int>(exit_code::environment);
}

// The commands of an external profiler: a line each for the shell, or {commands: [[word]]}.
void print_commands(const std::vector<std::vector<std::string>>& commands,
                    const command_line& line) {
  if (wants_json(line)) {
    print("{}", json_text({{"commands", commands}}));
    return;
  }
  for (const auto& command : commands) print("{}\n", shell_line(command));
}

int profile_outside(const std::string& tool, const std::vector<std::string>& arguments,
                    const fs::path& output, const command_line& line, const std::string& device) {
  tool_request request;
  request.program = child_command(arguments, device);
  request.program.push_back("--output=" + (output / (tool + "-rows")).string());
  request.report = (output / tool).string();
  request.phases = line.list("phase");
  request.launches = static_cast<int>(line.within("launch-count", 1, 1 << 20));
  const bool nsys = tool == "nsys";
  if (nsys && !request.phases.empty()) {
    throw usage_error("--phase is for ncu; nsys records every phase");
  }
  std::vector<std::vector<std::string>> commands = {nsys ? nsys_command(request)
                                                         : ncu_command(request)};
  if (nsys) commands.push_back(nsys_stats_command(request));
  if (line.given("print-command")) {
    print_commands(commands, line);
    return 0;
  }
  if (!nsys && !find_device(device).is_card) {
    return not_run("ncu profiles kernels of a GPU; this is device " + device, line);
  }
  choose_device(device);
  const environment machine = capture_environment("");
  if ((nsys ? machine.nsys : machine.ncu).empty()) {
    return not_run(
        nsys ? "needs nsys (Nsight Systems) on PATH" : "needs ncu (Nsight Compute) on PATH", line);
  }
  fs::create_directories(output);
  for (const auto& command : commands) {
    print("{}\n", shell_line(command));
    if (const int status = run_process(command); status != 0) {
      throw error(exit_code::run_failed, fmt::format("{} ended with {}", command[0], status));
    }
  }
  return 0;
}

}  // namespace

int command_profile(const std::vector<std::string>& arguments) {
  const command_line line("profile MODEL|EXPERIMENT.toml [options]", profile_options(), {"target"},
                          arguments);
  const fs::path target =
      line.place("target", "profile needs a model folder or an experiment file");
  const std::string tool = line.text("tool");
  find_known("tool", tool, tools);
  const std::string order = line.text("order");
  find_known("order", order, {"time", "step"});
  const bool in_order = order == "step";
  const bool outside = tool == "nsys" || tool == "ncu";
  if (line.given("print-command") && !outside) {
    throw usage_error("--print-command is for --tool nsys and ncu");
  }
  if (wants_json(line) && outside && !line.given("print-command")) {
    throw usage_error("nsys and ncu print texts of their own: --format json needs --print-command");
  }
  const bool file = target.extension() == ".toml";
  experiment_spec spec = file ? spec_of_file(target, line) : spec_of_target(target, line);
  // What a GPU's tool looks at is the GPU, unless the user names another device.
  const bool gpu_tool = outside || tool == "cupti";
  const std::vector<std::string> asked = devices_of(spec);
  if (gpu_tool && asked == std::vector<std::string>{"auto"}) {
    apply_override(spec, "run.device=cuda");
  }
  const std::string wanted = devices_of(spec).front();
  const std::string device = wanted == "auto" ? choose_device(wanted).name : wanted;
  // Kernels of a CUDA graph run outside the ranges of their phases, and a profile is about phases:
  // every pass, timed and traced, launches its kernels, unless the user says otherwise.
  if (find_device(device).has_graphs && spec.run.graphs == "auto") spec.run.graphs = "off";
  spec.evidence.min_repetitions = spec.evidence.max_repetitions =
      line.within("repetitions", 1, 100000);
  spec.evidence.warmup = line.within("warmup", 0, 1000);
  const fs::path output = line.text("output", "runs/profile/" + target.stem().string());
  if (outside) return profile_outside(tool, arguments, output, line, device);
  if (tool == "cupti") {
    if (!find_device(device).is_card) {
      return not_run("CUPTI sees what a GPU runs; this is device " + device, line);
    }
    choose_device(device);
    if (const std::string why = why_no_cupti(); !why.empty())
      return not_run("needs CUPTI: " + why, line);
  }

  profile_settings settings;
  settings.tool = tool == "cupti"  ? profile_tool::cupti
                  : tool == "nvtx" ? profile_tool::nvtx
                                   : profile_tool::phases;
  settings.counters = !line.given("no-counters");
  if (!line.given("no-roofs")) {
    settings.roofs = [](run_keys run, const std::string& format) {
      run.format = format;
      return find_device(run.device).roofs(run);
    };
  }
  settings.trace = line.text("trace");
  run_options run;
  run.watch = make_profiler(std::move(settings));
  run.output = fresh_folder(output);
  run.continues = false;
  const run_summary summary = run_experiment(spec, run);
  const row_table rows(summary.rows);
  const std::vector<text_table> tables = phase_tables(rows.all(), in_order);
  if (wants_json(line)) print("{}", render(tables, table_format::json));
  if (!wants_json(line)) print_tables(render(tables, table_format::md));
  for (const result_row& row : summary.rows) {
    if (row.probes.contains("phases") || tool == "nvtx") continue;
    tell("{} {}: {} {}\n", row.model.name, row.label, shown_verdict(row), row.reason);
  }
  tell("rows: {}\n", summary.file.string());
  for (std::size_t i = 0; line.given("trace") && i < summary.rows.size(); ++i) {
    const fs::path trace = trace_of_point(line.text("trace"), i);
    if (!is_file(trace)) continue;
    tell("trace: {} (open it in ui.perfetto.dev or chrome://tracing)\n", trace.string());
  }
  return summary.not_supported > 0 ? static_cast<int>(exit_code::run_failed)
                                   : summary.exit_status();
}

}  // namespace unmask
