// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <iterator>

#include "harness/base/nearest.h"
#include "harness/base/output.h"
#include "harness/base/run_keys.h"
#include "harness/cli/command.h"
#include "harness/cli/golden.h"
#include "harness/cli/options.h"
#include "harness/decode/likelihood_replay.h"
#include "harness/experiment/device.h"
#include "harness/experiment/execute_parts.h"
#include "harness/workload/programs/replay.h"
#include "harness/workload/scorers/replay.h"

namespace unmask {
namespace {

// Cases of the evaluation harnesses are counted by file.
void print_result(const golden_result& file, bool quiet) {
  if (quiet && file.failed == 0) return;
  print("{:<44} {} passed, {} failed", file.file, file.passed, file.failed);
  if (file.undecided > 0) print(" ({} undecided)", file.undecided);
  print("\n");
  for (const std::string& reason : file.first_failures) print("  {}\n", reason);
}

// Scorers, likelihoods and programs.
golden_results replay_evaluation(const golden_options& o, const std::vector<std::string>& data) {
  const std::vector<std::filesystem::path> roots(data.begin(), data.end());
  golden_results all;
  for (const golden_results& part :
       {golden_results{scorers::replay_scorers(o.directory), {}},
        replay_likelihood(o.directory, roots, *o.backend), replay_programs(o.directory, roots)}) {
    std::ranges::copy(part.files, std::back_inserter(all.files));
    std::ranges::copy(part.not_run, std::back_inserter(all.not_run));
  }
  return all;
}

}  // namespace

int command_golden(const texts& arguments) {
  const command_line line(
      "golden DIR [options]",
      {{"method", repeated(),
        "replay only this method or golden file (repeatable), without the logits"},
       device_option(),
       {"limit", 0, "replay at most N runs of each file (0: all)"},
       {"max-rows", 0,
        "replay only runs that compute at most N rows in all (0: all): for slow backends"},
       {"data", repeated(),
        "look for official data sets, models/ and tokenizers/ for programs and likelihoods here "
        "before DIR/data, DIR/../data and DIR/../goldens (repeatable)"},
       {"samples", no_default,
        "write the scorer cases as we judge them into lm-eval's sample files in this folder, and "
        "stop"},
       {"quiet,q", flag(), "print failures and the summary only"}},
      {"dir"}, arguments);
  golden_options o;
  o.directory = line.place("dir", "golden needs the folder of the golden data");
  o.methods = line.list("method");
  o.quiet = line.given("quiet");
  o.limit = static_cast<int>(line.within("limit", 0, 1 << 24));
  o.max_rows = line.at_least("max-rows", 0);
  const std::string wanted = line.text("device", "auto");
  find_known("device", wanted, find_run_key("device")->choices());
  const chosen_device device = choose_device(wanted);
  o.backend = &backend_of(device.name);
  tell("{}\n", device_line({device}));

  if (line.given("samples")) {
    scorers::write_scorer_samples(o.directory, line.text("samples"));
    return 0;
  }
  golden_summary sum;
  const auto add = [&](const golden_summary& part) {
    sum.passed += part.passed;
    sum.failed += part.failed;
    sum.skipped += part.skipped;
    sum.left_out += part.left_out;
  };
  golden_results harnesses;
  if (o.methods.empty()) {
    harnesses = replay_evaluation(o, line.list("data"));
  }
  for (const std::string& reason : harnesses.not_run) print("NOT RUN: {}\n", reason);
  sum.skipped += static_cast<int>(harnesses.not_run.size());
  for (const golden_result& file : harnesses.files) {
    print_result(file, o.quiet);
    add({file.passed, file.failed});
  }
  if (harnesses.files.empty() || std::filesystem::exists(o.directory / "decode")) {
    if (o.methods.empty()) add(replay_logits(o));
    add(replay_decode(o));
  }
  if (sum.passed + sum.failed + sum.skipped == 0 && sum.left_out > 0) {
    throw usage_error("--max-rows " + std::to_string(o.max_rows) + " leaves out every golden case");
  }
  if (sum.passed + sum.failed + sum.skipped == 0) {
    throw usage_error("no golden case matches; see the file names under " +
                      (o.directory / "decode").string());
  }
  print("{} passed, {} failed", sum.passed, sum.failed);
  if (sum.skipped > 0) print(", {} skipped", sum.skipped);
  if (sum.left_out > 0) print(", {} left out by --limit or --max-rows", sum.left_out);
  print("\n");
  return static_cast<int>(sum.failed == 0 ? exit_code::ok : exit_code::run_failed);
}

}  // namespace unmask
