// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// unmask profile: an experiment (of a file, or made up here for one model and one method) whose
// points are watched by a tool, or the command line of an external profiler around that.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/settings_option.h"
#include "harness/experiment/profiled.h"
#include "harness/experiment/store.h"
#include "harness/model/config.h"
#include "harness/profile/cupti_trace.h"
#include "harness/profile/tool_commands.h"
#include "kernels/bench/roofs.h"
#include "kernels/cuda/device.h"

namespace unmask {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

const std::vector<std::string> tools = {"phases", "nvtx", "cupti", "nsys", "ncu"};

po::options_description make_options() {
  using texts = std::vector<std::string>;
  po::options_description options("options");
  auto add = options.add_options();
  add("tool,t", po::value<std::string>()->default_value("phases"),
      "phases: time, rows, FLOPs and bytes of every phase; nvtx: ranges only, for a profiler of "
      "yours; cupti: kernels and counters by phase; nsys, ncu: Nsight Systems, Nsight Compute");
  add("print-command", "print the command line of nsys or ncu and stop");
  add("phase", po::value<texts>()->composing(),
      "ncu: kernels of this phase only (repeatable; names in harness/profile/README.md)");
  add("launch-count", po::value<int>()->default_value(20), "ncu: at most so many kernels");
  add("trace", po::value<std::string>(),
      "write the profiled pass as a Chrome trace (Perfetto reads it)");
  add("method,m", po::value<texts>()->composing(),
      "decoding method (repeatable); of an experiment file: only methods of this name or label");
  add("preset", po::value<std::string>()->default_value(""), "named settings of the method");
  add("set", po::value<texts>()->composing(),
      "name=value of a method parameter; of an experiment file: KEY=VALUE over the file");
  add("task", po::value<std::string>(), "task of a model (default word_problem)");
  add("limit", po::value<int>()->default_value(4), "items of the task, or random prompts");
  add("prompt-tokens", po::value<int>(), "random prompts of so many tokens instead of a task");
  add("gen-length", po::value<int>()->default_value(0), "tokens of the canvas (0: the task's)");
  add("batch-size,b", po::value<int>()->default_value(1), "places in the batch");
  add("weights", po::value<std::string>()->default_value("checkpoint"),
      "checkpoint or random:SEED (then config.json is enough)");
  add("layers", po::value<int>()->default_value(0),
      "random weights: only the first so many layers");
  add("device", po::value<std::string>()->default_value("cpu"), "cpu, reference or cuda");
  add("format", po::value<std::string>()->default_value("auto"), "of weights: f32, bf16, int8");
  add("kv-type", po::value<std::string>()->default_value("auto"),
      "of keys and values: auto, f32, bf16 (cuda only)");
  add("seed", po::value<int>()->default_value(0), "of random prompts and sampling noise");
  add("repetitions", po::value<int>()->default_value(3), "timed passes");
  add("warmup", po::value<int>()->default_value(1), "passes before them");
  add("output-dir,O", po::value<std::string>(), "where rows and reports go (default runs/profile)");
  return options;
}

int positive(const po::variables_map& values, const char* name, int least) {
  const int value = values[name].as<int>();
  if (value < least) throw usage_error(fmt::format("--{} is at least {}", name, least));
  return value;
}

std::vector<std::string> list_of(const po::variables_map& values, const char* name) {
  return values.count(name) ? values[name].as<std::vector<std::string>>()
                            : std::vector<std::string>{};
}

// The method a model was made for.
std::string usual_method(const model_config& config) {
  if (config.attention == mask_kind::full) return "vanilla";
  return config.attention == mask_kind::causal ? "autoregressive" : "block_diffusion";
}

experiment_spec spec_of_model(const fs::path& directory, const po::variables_map& values) {
  experiment_spec spec;
  spec.title = "Profile of " + directory.filename().string();
  const std::string weights = values["weights"].as<std::string>();
  const bool random = weights.rfind("random:", 0) == 0 && weights.size() > 7 &&
                      weights.find_first_not_of("0123456789", 7) == std::string::npos;
  if (weights != "checkpoint" && !random) {
    throw usage_error("--weights is checkpoint or random:SEED, not '" + weights + "'");
  }
  const model_config config = read_model_config(directory);
  std::string name = directory.filename().string();
  if (const int layers = positive(values, "layers", 0); layers > 0) {
    name += fmt::format(", {} of {} layers", layers, config.layers);
  }
  spec.models.push_back({name, directory, weights});
  workload_entry workload;
  workload.items.limit = positive(values, "limit", 1);
  if (values.count("prompt-tokens")) {
    workload.name = fmt::format("{} + {} random tokens", positive(values, "prompt-tokens", 1),
                                positive(values, "gen-length", 1));
  } else {
    workload.name = values.count("task") ? values["task"].as<std::string>() : "word_problem";
    workload.file = find_task(workload.name, fs::current_path() / "experiments");
  }
  spec.workloads.push_back(workload);
  std::vector<std::string> names = list_of(values, "method");
  if (names.empty()) names.push_back(usual_method(config));
  for (const std::string& method : names) {
    method_entry entry;
    entry.name = entry.label = method;
    entry.preset = values["preset"].as<std::string>();
    entry.params = parse_settings(method_registry::instance().find(method), list_of(values, "set"));
    entry.where = "--method";
    spec.methods.push_back(entry);
  }
  spec.run.batch_size = positive(values, "batch-size", 1);
  spec.run.gen_length = positive(values, "gen-length", 0);
  spec.run.seed = positive(values, "seed", 0);
  spec.run.device = values["device"].as<std::string>();
  spec.run.format = values["format"].as<std::string>();
  spec.run.kv_type = values["kv-type"].as<std::string>();
  return spec;
}

experiment_spec spec_of_file(const fs::path& file, const po::variables_map& values) {
  experiment_spec spec = read_spec(file);
  for (const std::string& assignment : list_of(values, "set")) apply_override(spec, assignment);
  const std::vector<std::string> wanted = list_of(values, "method");
  if (!wanted.empty()) {
    std::vector<std::string> known;
    for (const method_entry& m : spec.methods) known.push_back(m.label);
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
  if (!values["device"].defaulted()) spec.run.device = values["device"].as<std::string>();
  spec.probe = {};  // probes observe too; one observer at a time
  return spec;
}

cuda::product_kind product_kind_of(const std::string& format) {
  if (format == "int8") return cuda::product_kind::int8;
  return format == "bf16" ? cuda::product_kind::bf16 : cuda::product_kind::f32;
}

machine_roofs roofs_of(const std::string& device, const std::string& format) {
  if (device == "cpu") {
    const bench::roofs& r = bench::measured_roofs();
    const bool int8 = format == "int8";
    return {int8 ? r.int8_ops : r.f32_flops, r.triad_bytes,
            fmt::format("measured here: {} and triad, {} threads",
                        int8 ? "8-bit dot products" : "multiply-adds", r.threads)};
  }
  if (device == "cuda" && !cuda::query().devices.empty()) {
    // A roof that this machine cannot measure, for want of memory or of the library, costs no row.
    machine_roofs roofs;
    std::string measured, missing;
    const auto attempt = [&](const char* what, const auto& measure) {
      try {
        measured += (measured.empty() ? "" : " and ") + measure();
      } catch (const error& e) {
        if (e.code() != exit_code::environment) throw;
        missing += fmt::format("; no roof of {}: {}", what, e.what());
      }
    };
    attempt("arithmetic", [&] {
      const cuda::product_roof product = cuda::measure_product_roof(0, product_kind_of(format));
      roofs.flops_per_second = product.operations_per_second;
      return product.what;
    });
    attempt("memory", [&] {
      roofs.bytes_per_second = cuda::measure_copy_roof(0).bytes_per_second;
      return std::string("copy");
    });
    roofs.source = "measured here: " + (measured.empty() ? "nothing" : measured) + missing;
    return roofs;
  }
  return {};
}

// The program and its arguments for the child of a profiler: as called, without what concerns the
// tool, and with one bare `measure` range.
std::vector<std::string> child_command(const std::vector<std::string>& arguments) {
  std::vector<std::string> child = {fs::read_symlink("/proc/self/exe").string(), "profile"};
  const std::vector<std::string> dropped = {"--tool",         "-t",      "--phase",
                                            "--launch-count", "--trace", "--repetitions",
                                            "--output-dir",   "-O"};
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
  child.insert(child.end(), {"--tool=nvtx", "--repetitions=1"});
  return child;
}

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, end - begin)) / program;
    if (access(file.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

int run_program(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    throw environment_error("cannot start " + command[0] + ": " + std::strerror(errno));
  }
  if (child == 0) {
    execvp(words[0], words.data());
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int not_run(const std::string& why) {
  fmt::print("NOT RUN: {}\n", why);
  return static_cast<int>(exit_code::environment);
}

int profile_outside(const std::string& tool, const std::vector<std::string>& arguments,
                    const fs::path& output, const po::variables_map& values,
                    const std::string& device) {
  tool_request request;
  request.program = child_command(arguments);
  request.program.push_back("--output-dir=" + (output / (tool + "-rows")).string());
  request.report = (output / tool).string();
  request.phases = list_of(values, "phase");
  request.launches = positive(values, "launch-count", 1);
  const bool nsys = tool == "nsys";
  if (nsys && !request.phases.empty()) {
    throw usage_error("--phase is for ncu; nsys records every phase");
  }
  std::vector<std::vector<std::string>> commands = {nsys ? nsys_command(request)
                                                         : ncu_command(request)};
  if (nsys) commands.push_back(nsys_stats_command(request));
  if (values.count("print-command")) {
    for (const auto& command : commands) fmt::print("{}\n", shell_line(command));
    return 0;
  }
  if (!nsys && device != "cuda") {
    return not_run("ncu profiles kernels of a GPU; this is device " + device);
  }
  if (const cuda::report machine = cuda::query(); !nsys && machine.devices.empty()) {
    return not_run(machine.note);
  }
  if (!on_path(tool)) {
    return not_run(nsys ? "needs nsys (Nsight Systems) on PATH"
                        : "needs ncu (Nsight Compute) on PATH");
  }
  fs::create_directories(output);
  for (const auto& command : commands) {
    fmt::print("{}\n", shell_line(command));
    if (const int status = run_program(command); status != 0) {
      throw error(exit_code::run_failed, fmt::format("{} ended with {}", command[0], status));
    }
  }
  return 0;
}

}  // namespace

int command_profile(const std::vector<std::string>& arguments) {
  po::variables_map values;
  if (!parse_command("profile MODEL|EXPERIMENT.toml [options]",
                     "\nexample: unmask profile experiments/models/tiny-llada -m fast_dllm "
                     "--trace trace.json\n",
                     make_options(), {"target"}, arguments, values)) {
    return 0;
  }
  if (!values.count("target")) {
    throw usage_error("profile needs a model folder or an experiment file");
  }
  const fs::path target = values["target"].as<std::vector<std::string>>().front();
  const std::string tool = values["tool"].as<std::string>();
  if (std::ranges::find(tools, tool) == tools.end()) {
    throw usage_error(unknown_name("tool", tool, tools));
  }
  const bool outside = tool == "nsys" || tool == "ncu";
  if (values.count("print-command") && !outside) {
    throw usage_error("--print-command is for --tool nsys and ncu");
  }
  const bool file = target.extension() == ".toml";
  experiment_spec spec = file ? spec_of_file(target, values) : spec_of_model(target, values);
  // Kernels of a CUDA graph run outside the ranges of their phases, and a profile is about phases:
  // every pass, timed and traced, launches its kernels, unless the user says otherwise.
  if (spec.run.device == "cuda" && spec.run.graphs == "auto") spec.run.graphs = "off";
  spec.evidence.min_repetitions = spec.evidence.max_repetitions =
      positive(values, "repetitions", 1);
  spec.evidence.warmup = positive(values, "warmup", 0);
  const fs::path output = values.count("output-dir")
                              ? fs::path(values["output-dir"].as<std::string>())
                              : fs::path("runs") / "profile" / target.stem();
  if (outside) return profile_outside(tool, arguments, output, values, spec.run.device);
  if (tool == "cupti") {
    if (const std::string why = why_no_cupti(); !why.empty()) return not_run("needs CUPTI: " + why);
    if (spec.run.device != "cuda") {
      return not_run("CUPTI sees what a GPU runs; this is device " + spec.run.device);
    }
    if (const cuda::report machine = cuda::query(); machine.devices.empty()) {
      return not_run(machine.note);
    }
  }

  profile_settings settings;
  settings.tool = tool == "cupti"  ? profile_tool::cupti
                  : tool == "nvtx" ? profile_tool::nvtx
                                   : profile_tool::phases;
  settings.warmup = spec.evidence.warmup;
  settings.roofs = roofs_of;
  if (values.count("trace")) settings.trace = values["trace"].as<std::string>();
  std::unique_ptr<executor> inner;
  if (!file && values.count("prompt-tokens")) {
    inner = make_shape_executor(
        {values["prompt-tokens"].as<int>(), values["limit"].as<int>(), values["layers"].as<int>()});
  } else {
    if (values["layers"].as<int>() > 0) throw usage_error("--layers needs --prompt-tokens");
    inner = make_executor();
  }
  const std::unique_ptr<executor> with =
      make_profiling_executor(std::move(inner), std::move(settings));
  run_options run;
  run.output = output;
  // A profile is looked at once: rows are appended, and nothing is skipped because it has one.
  run.resume = true;
  std::error_code none;
  for (int i = 2; fs::exists(run.output, none); ++i) {
    run.output = output.parent_path() / (output.filename().string() + fmt::format("-{}", i));
  }
  const run_summary summary = run_experiment(spec, run, *with);
  fmt::print("{}", phase_tables(summary.rows));
  std::fflush(stdout);
  for (const result_row& row : summary.rows) {
    if (row.probes.contains("phases") || tool == "nvtx") continue;
    fmt::print(stderr, "{} {}: {} {}\n", row.model.name, row.label, name_of(row.verdict),
               row.reason);
  }
  fmt::print(stderr, "rows: {}\n", summary.file.string());
  if (values.count("trace")) {
    fmt::print(stderr, "trace: {} (open it in ui.perfetto.dev or chrome://tracing)\n",
               values["trace"].as<std::string>());
  }
  return summary.exit_status();
}

}  // namespace unmask
