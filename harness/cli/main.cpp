// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <filesystem>
#include <iostream>

#include "harness/base/error.h"
#include "harness/cli/command.h"
#include "harness/cli/options.h"
#include "harness/decode/parameters.h"
#include "harness/experiment/execute_parts.h"
#include "harness/profile/build_info.h"
#include "kernels/cuda/device.h"

namespace unmask {

const std::vector<command>& commands() {
  static const std::vector<command> all = {
      {"run", "measure an experiment file, or every artifact of a folder", command_run},
      {"bench", "methods x shapes of one model in one line, without a file", command_bench},
      {"generate", "decode one prompt; --watch shows the canvas being unmasked", command_generate},
      {"profile", "time, work and kernels of every phase of a step; nsys and ncu", command_profile},
      {"list", "methods, tasks, models, experiments and claims", command_list},
      {"show", "one method: its five slots, parameters and sources", command_show},
      {"doctor", "what this machine has and what is missing", command_doctor},
      {"table", "measured rows as a table: plain, paired, as the paper, phases", command_table},
      {"compare", "two runs or campaigns: same answers, counts and speed ratios?", command_compare},
      {"claims", "the papers' claims against measured rows", command_claims},
      {"crossover", "which method wins where, from rows of a sweep", command_crossover},
      {"report", "one HTML page of a run: tables, figures, decode player", command_report},
      {"bundle", "a run as one file, to be repeated elsewhere", command_bundle},
      {"rerun", "repeat a bundle and compare", command_rerun},
      {"prompts", "write what benchmarks ask into files, for runs without Python", command_prompts},
      {"plan", "what experiments would measure; as a job array for a cluster", command_plan},
      {"merge", "rows that were measured in parts as one file", command_merge},
      {"golden", "replay the official implementations' outputs and compare", command_golden},
  };
  return all;
}

const backend& device_named(const std::string& name) {
  if (name == "cuda") {
    const cuda::report machine = cuda::query();
    if (machine.devices.empty()) {
      std::cerr << machine.note << "; using the CPU instead\n";
      return cpu_backend();
    }
  }
  return backend_of(name);
}

namespace {

void print_help(std::ostream& out) {
  out << "unmask: benchmarks and profiles decoding methods for diffusion language models\n\n"
         "usage: unmask COMMAND [options]     (unmask COMMAND --help tells more)\n\n";
  for (const command& c : commands()) {
    out << "  " << c.name << std::string(12 - std::string(c.name).size(), ' ') << c.summary << '\n';
  }
  out << "\nfirst steps: unmask run experiments/quickstart.toml\n"
         "             unmask generate --watch --model experiments/models/tiny-llada \"...\"\n"
         "             unmask bench experiments/models/tiny-llada -m vanilla,fast_dllm -n 64\n"
         "unmask --version: version, commit and build\n"
         "exit codes: 0 ok, 1 a run failed, 2 usage, 3 environment, 4 claim not reproduced\n";
}

int dispatch(const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help") {
    print_help(arguments.empty() ? std::cerr : std::cout);
    return static_cast<int>(arguments.empty() ? exit_code::usage : exit_code::ok);
  }
  if (arguments[0] == "--version") {
    const build_info build = this_build();
    std::cout << "unmask " << build.version << ", commit " << build.git_commit
              << (build.git_dirty ? " (modified)" : "") << ", " << build.build_type << ", "
              << build.compiler << '\n';
    return 0;
  }
  std::vector<std::string> names;
  for (const command& c : commands()) {
    if (arguments[0] == c.name) return c.run({arguments.begin() + 1, arguments.end()});
    names.emplace_back(c.name);
  }
  throw usage_error(unknown_name("command", arguments[0], names));
}

}  // namespace
}  // namespace unmask

int unmask_main(int argc, char** argv) {
  try {
    return unmask::dispatch({argv + 1, argv + argc});
  } catch (const unmask::help_shown&) {
    return 0;
  } catch (const unmask::error& failure) {
    std::cerr << "unmask: " << failure.what() << '\n';
    return static_cast<int>(failure.code());
  } catch (const std::filesystem::filesystem_error& failure) {
    std::cerr << "unmask: " << failure.path1().string() << ": " << failure.code().message() << '\n';
    return static_cast<int>(unmask::exit_code::environment);
  } catch (const std::bad_alloc&) {
    std::cerr << "unmask: out of memory; use a smaller batch size, length or model\n";
    return static_cast<int>(unmask::exit_code::environment);
  } catch (const std::exception& failure) {
    std::cerr << "unmask: internal error: " << failure.what() << '\n';
    return static_cast<int>(unmask::exit_code::run_failed);
  }
}

// Weak: the GPU check's one program (tests/gpu/multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_main(argc, argv);
}
