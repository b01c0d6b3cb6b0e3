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
       "run an experiment file, or every paper table and figure in a folder",
       command_run,
       {"run experiments/quickstart.toml",
        "run experiments/quickstart.toml --set params.threshold=0.8 -o runs/again",
        "run experiments --only focus_dllm --dry-run"}},
      {"bench",
       "time methods on one model, without a file",
       command_bench,
       {"bench tiny-llada -m vanilla,fast_dllm -n 64",
        "bench tiny-sdar -m block_diffusion,optimus -p 128,512 -n 64 -b 1,8"}},
      {"generate",
       "decode one prompt; --watch shows each step",
       command_generate,
       {"generate --set params.threshold=0.9 \"Compute 5 * 7 - 15 - 19 + 38.\"",
        "generate --watch --model tiny-sdar \"Compute 5 * 7 - 15 - 19 + 38.\""}},
      {"profile",
       "show where the time of a step goes; runs nsys and ncu",
       command_profile,
       {"profile tiny-llada -m fast_dllm --trace trace.json",
        "profile tiny-sdar --tool nsys --print-command"}},
      {"campaign",
       "measure everything several times from one commit, and judge all claims",
       package,
       {"campaign runs/campaign", "campaign runs/campaign --campaigns 0 --archive results/tiny"}},
  };
}

list looking_up() {
  return {
      {"list",
       "list methods, models, tasks, benchmarks, experiments or claims",
       command_list,
       {"list methods", "list experiments"}},
      {"show",
       "show a method's components, parameters and sources",
       command_show,
       {"show focus", "show format"}},
      {"doctor",
       "check this machine and a checkpoint",
       command_doctor,
       {"doctor", "doctor --model experiments/models/tiny-llada", "doctor --device cuda --check"}},
  };
}

list of_rows() {
  return {
      {"table",
       "print results as Markdown, CSV, LaTeX or JSON",
       command_table,
       {"table runs/quickstart", "table runs/quickstart --format csv -o quickstart.csv",
        "table runs/quickstart --columns score,tokens_per_second,speedup --format latex"}},
      {"compare",
       "compare two runs or builds: same answers and counts, and which is faster",
       package,
       {"compare runs/before runs/after",
        "compare --programs old/unmask new/unmask experiments/quickstart.toml"}},
      {"claims",
       "judge the papers' claims",
       package,
       {"claims results/tiny --headlines", "claims results/tiny --explain focus/speedup_of_2_32"}},
      {"crossover",
       "find which method wins at which batch, prompt and length",
       package,
       {"crossover results/epyc-2core/crossover.jsonl --base vanilla"}},
      {"report",
       "write one HTML page with tables, figures and the decode player",
       package,
       {"report runs/quickstart"}},
  };
}

list of_runs() {
  return {
      {"plan",
       "list what experiments will measure, or write a Slurm job array",
       package,
       {"plan experiments/focus/table_1.toml --scheduler slurm --shards 8 -o runs/focus"}},
      {"merge",
       "join results that were measured in parts",
       package,
       {"merge runs/focus -o focus.jsonl"}},
      {"bundle",
       "pack a run into one file, to repeat it elsewhere",
       package,
       {"bundle runs/quickstart -o quickstart.tar"}},
      {"rerun", "repeat a bundle and compare", package, {"rerun quickstart.tar"}},
      {"prompts",
       "write benchmark prompts, for machines without Python",
       command_prompts,
       {"prompts experiments/benchmarks_smoke.toml -o tasks/"}},
      {"pictures",
       "write pictures as a model is shown them, for runs without Python",
       package,
       {"pictures chart.png --model models/LLaDA-V -o pictures/"}},
      {"score",
       "score stored answers with the benchmarks' own libraries",
       package,
       {"score runs/gsm8k/samples", "score samples_gsm8k_2026-01-01.jsonl --harness LM"}},
      {"probes", "compute the probes of a run that had no Python", package, {"probes runs/probes"}},
  };
}

list of_the_program() {
  return {
      {"completion",
       "print a completion script for bash or zsh",
       command_completion,
       {"completion bash", "completion zsh"}},
      {"man", "print the manual page", command_man, {"man"}},
      {"help", "show the commands, or the options of one", command_help, {"help run"}},
  };
}

}  // namespace

const std::vector<command>& commands() {
  static const list all = [] {
    list found;
    const std::vector<std::pair<const char*, list>> groups = {
        {"measure", measuring()},
        {"find out", looking_up()},
        {"look at results", of_rows()},
        {"move work between machines", of_runs()},
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
