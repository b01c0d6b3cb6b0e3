// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <filesystem>
#include <system_error>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/cli/command.h"
#include "harness/cli/help.h"
#include "harness/cli/options.h"
#include "harness/devices/build_info.h"

namespace unmask {

const std::vector<command>& commands() {
  static const std::vector<command> all = {
      {"run", "measure an experiment file, or every artifact of a folder", command_run},
      {"bench", "measure methods x shapes of one model in one line, without a file", command_bench},
      {"generate", "decode one prompt; --watch shows the canvas being unmasked", command_generate},
      {"profile", "time, work and kernels of every phase of a step; nsys and ncu", command_profile},
      {"list", "methods, tasks, models, benchmarks, experiments and claims", command_list},
      {"show", "one method: its five slots, parameters and sources", command_show},
      {"doctor", "what this machine has and what is missing", command_doctor},
      {"table", "measured rows as a table: plain, paired, as the paper, phases", command_table},
      {"compare", "two runs or campaigns: the same answers and counts, and which side is faster",
       command_compare},
      {"campaign", "every artifact from one clean commit, several times, with all claims",
       command_campaign},
      {"claims", "the papers' claims against measured rows", command_claims},
      {"crossover", "which method wins where, from rows of a sweep", command_crossover},
      {"report", "one HTML page of a run: tables, figures, claims, decode player", command_report},
      {"bundle", "a run as one file, to be repeated elsewhere", command_bundle},
      {"rerun", "repeat a bundle and compare", command_rerun},
      {"prompts", "write what benchmarks ask into files, for runs without Python", command_prompts},
      {"score", "score answers of any harness with the benchmarks' own libraries", command_score},
      {"plan", "what experiments would measure; as a job array for a cluster", command_plan},
      {"probes", "compute the probes of a run whose machine had no Python", command_probes},
      {"merge", "rows that were measured in parts as one file", command_merge},
      {"completion", "print a script that completes these commands in bash or zsh",
       command_completion},
      {"man", "print the manual page", command_man},
      {"help", "tell a command's options, with examples", command_help},
  };
  return all;
}

namespace {

int dispatch(const texts& arguments) {
  if (arguments.empty()) {
    write_error(program_help());
    return static_cast<int>(exit_code::usage);
  }
  if (arguments[0] == "--help" || arguments[0] == "-h") {
    write_output(program_help());
    return 0;
  }
  if (arguments[0] == "--version") {
    const build_info build = this_build();
    print("unmask {}, commit {}{}, {}, {}\n", build.version, build.git_commit,
          build.git_dirty ? " (modified)" : "", build.build_type, build.compiler);
    return 0;
  }
  const texts names = names_in(commands(), &command::name);
  return commands()[find_known("command", arguments[0], names)].run(
      {arguments.begin() + 1, arguments.end()});
}

int fail(exit_code code, const std::string& sentence) {
  write_error("unmask: " + sentence + "\n");
  return static_cast<int>(code);
}

// Runs `work`; what it throws becomes one sentence and an exit code.
template <class Work>
int guarded(const Work& work) {
  try {
    return work();
  } catch (const help_shown&) {
    return 0;
  } catch (const error& failure) {
    return fail(failure.code(), failure.what());
  } catch (const std::filesystem::filesystem_error& failure) {
    return fail(exit_code::environment, failure.path1().string() + ": " + failure.code().message());
  } catch (const std::bad_alloc&) {
    return fail(exit_code::environment, "out of memory; use a smaller batch size, length or model");
  } catch (const std::exception& failure) {
    return fail(exit_code::run_failed, std::string("internal error: ") + failure.what());
  }
}

}  // namespace
}  // namespace unmask

int unmask_main(int argc, char** argv) {
  const int code = unmask::guarded([&] { return unmask::dispatch({argv + 1, argv + argc}); });
  // What did not reach its file was not done, whatever else came of it.
  const int written = unmask::guarded([] {
    unmask::check_output();
    return 0;
  });
  return written != 0 ? written : code;
}

// Weak: the GPU check's one program (tests/gpu/multicall.cpp) has a main() of its own.
[[gnu::weak]] int main(int argc, char** argv) {
  return unmask_main(argc, argv);
}
