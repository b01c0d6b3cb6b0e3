// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The list of all commands. One of the Python package has an entry here and a line in
// harness/python/unmask/__main__.py.
#include <utility>

#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/cli/command.h"

namespace unmask {
namespace {

using texts = std::vector<std::string>;
using list = std::vector<command>;

// Answered by the package.
constexpr int (*package)(const texts&) = nullptr;

list measuring() {
  return {
      {"run",
       "measure an experiment file, or every paper table and figure of a folder",
       command_run,
       {"run experiments/quickstart.toml",
        "run experiments/quickstart.toml --set params.threshold=0.8 -o runs/again",
        "run experiments --only focus_dllm --dry-run"}},
      {"bench",
       "measure methods x shapes of one model in one line, without a file",
       command_bench,
       {"bench tiny-llada -m vanilla,fast_dllm -n 64",
        "bench tiny-sdar -m block_diffusion,optimus -p 128,512 -n 64 -b 1,8"}},
      {"generate",
       "decode one prompt; --watch shows the response being unmasked",
       command_generate,
       {"generate --set params.threshold=0.9 \"Compute 5 * 7 - 15 - 19 + 38.\"",
        "generate --watch --model tiny-sdar \"Compute 5 * 7 - 15 - 19 + 38.\""}},
      {"profile",
       "time, work and kernels of every phase of a step; nsys and ncu",
       command_profile,
       {"profile tiny-llada -m fast_dllm --trace trace.json",
        "profile tiny-sdar --tool nsys --print-command"}},
      {"campaign",
       "every table and figure from one clean commit, several times, with all claims",
       package,
       {"campaign runs/campaign", "campaign runs/campaign --campaigns 0 --archive results/tiny"}},
  };
}

list looking_up() {
  return {
      {"list",
       "methods, tasks, models, benchmarks, experiments and claims",
       command_list,
       {"list methods", "list experiments"}},
      {"show",
       "one method: its five components, parameters and sources",
       command_show,
       {"show focus", "show format"}},
      {"doctor",
       "what this machine has and what is missing",
       command_doctor,
       {"doctor", "doctor --model experiments/models/tiny-llada", "doctor --device cuda --check"}},
  };
}

list of_rows() {
  return {
      {"table",
       "measured rows as a table: plain, paired, as the paper, phases",
       command_table,
       {"table runs/quickstart", "table runs/quickstart --format csv -o quickstart.csv",
        "table runs/quickstart --columns score,tokens_per_second,speedup --format latex"}},
      {"compare",
       "two runs or campaigns: the same answers and counts, and which side is faster",
       package,
       {"compare runs/before runs/after",
        "compare --programs old/unmask new/unmask experiments/quickstart.toml"}},
      {"claims",
       "the papers' claims against measured rows",
       package,
       {"claims runs/campaign", "claims runs/campaign --only optimus"}},
      {"crossover",
       "which method wins where, from rows of a sweep",
       package,
       {"crossover results/epyc-2core/crossover.jsonl --base vanilla"}},
      {"report",
       "one HTML page of a run: tables, figures, claims, decode player",
       package,
       {"report runs/quickstart"}},
  };
}

list of_runs() {
  return {
      {"plan",
       "what experiments would measure; as a job array for a cluster",
       package,
       {"plan experiments/focus/table_1.toml --scheduler slurm --shards 8 -o runs/focus"}},
      {"merge",
       "rows that were measured in parts as one file",
       package,
       {"merge runs/focus -o focus.jsonl"}},
      {"bundle",
       "a run as one file, to be repeated elsewhere",
       package,
       {"bundle runs/quickstart -o quickstart.tar"}},
      {"rerun", "repeat a bundle and compare", package, {"rerun quickstart.tar"}},
      {"prompts",
       "write what benchmarks ask into files, for runs without Python",
       command_prompts,
       {"prompts experiments/benchmarks_smoke.toml -o tasks/"}},
      {"score",
       "score answers of any harness with the benchmarks' own libraries",
       package,
       {"score runs/gsm8k/samples", "score samples_gsm8k_2026-01-01.jsonl --harness LM"}},
      {"probes",
       "compute the probes of a run whose machine had no Python",
       package,
       {"probes runs/probes"}},
  };
}

list of_the_program() {
  return {
      {"completion",
       "print a script that completes these commands in bash or zsh",
       command_completion,
       {"completion bash", "completion zsh"}},
      {"man", "print the manual page", command_man, {"man"}},
      {"help", "tell a command's options, with examples", command_help, {"help run"}},
  };
}

}  // namespace

const std::vector<command>& commands() {
  static const list all = [] {
    list found;
    const std::vector<std::pair<const char*, list>> groups = {
        {"measure", measuring()},
        {"look up", looking_up()},
        {"rows that were measured", of_rows()},
        {"runs in parts, elsewhere or again", of_runs()},
        {"this program", of_the_program()}};
    for (const auto& [group, of] : groups) {
      for (command c : of) {
        c.group = group;
        found.push_back(std::move(c));
      }
    }
    return found;
  }();
  return all;
}

const command& command_named(const std::string& name) {
  return commands()[find_known("command", name, names_in(commands(), &command::name))];
}

int run_command(const command& c, const texts& arguments) {
  if (c.run != package) return c.run(arguments);
  texts words = {c.name};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become_package(words, c.summary + ("\n" + joined(c.examples, "\n")));
}

}  // namespace unmask
