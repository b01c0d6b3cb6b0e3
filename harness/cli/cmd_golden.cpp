// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <fmt/core.h>

#include "harness/cli/command.h"
#include "harness/cli/golden.h"
#include "harness/decode/likelihood_replay.h"
#include "harness/workload/benchmarks/replay.h"
#include "harness/workload/programs/replay.h"
#include "harness/workload/scorers/replay.h"

namespace unmask {
namespace po = boost::program_options;
namespace {

// Cases of the evaluation harnesses are counted by file.
void print_result(const golden_result& file, bool quiet) {
  if (quiet && file.failed == 0) return;
  fmt::print("{:<44} {} passed, {} failed", file.file, file.passed, file.failed);
  if (file.undecided > 0) fmt::print(" ({} undecided)", file.undecided);
  fmt::print("\n");
  for (const std::string& reason : file.first_failures) fmt::print("  {}\n", reason);
}

// Prompts, scorers, likelihoods and programs; cases without their data are named and count as skipped.
std::vector<golden_result> replay_evaluation(const golden_options& o,
                                             const std::vector<std::string>& data,
                                             const std::string& experiments, golden_summary& sum) {
  const std::vector<std::filesystem::path> roots(data.begin(), data.end());
  prompt_replay prompts =
      replay_prompts(o.directory, roots, std::filesystem::path(experiments) / "data/fewshot");
  likelihood_replay likelihoods = replay_likelihood(o.directory, roots, *o.backend);
  std::vector<golden_result> files = std::move(prompts.files);
  for (golden_result& file : scorers::replay_scorers(o.directory)) {
    files.push_back(std::move(file));
  }
  files.insert(files.end(), likelihoods.files.begin(), likelihoods.files.end());
  program_replay programs = replay_programs(o.directory, roots);
  files.insert(files.end(), programs.files.begin(), programs.files.end());
  for (const auto* missing :
       {&prompts.without_data, &likelihoods.without_data, &programs.not_run}) {
    for (const std::string& reason : *missing) fmt::print("NOT RUN: {}\n", reason);
    sum.skipped += static_cast<int>(missing->size());
  }
  return files;
}

}  // namespace

int command_golden(const std::vector<std::string>& arguments) {
  po::options_description options("options");
  options.add_options()("method", po::value<std::vector<std::string>>()->composing(),
                        "only this method or golden file (repeatable); leaves out the logits")(
      "device", po::value<std::string>()->default_value("cpu"),
      "cpu, reference, cuda or cuda-emulated")("limit", po::value<int>()->default_value(0),
                                               "only the first so many runs of each file (0: all)")(
      "max-rows", po::value<std::int64_t>()->default_value(0),
      "only runs that compute at most so many rows in all (0: all): for slow backends")(
      "data", po::value<std::vector<std::string>>()->composing(),
      "folder of official data sets, models/ and tokenizers/ for prompts and likelihoods, before "
      "DIR/data, DIR/../data and DIR/../goldens (repeatable)")(
      "experiments-dir", po::value<std::string>()->default_value("experiments"),
      "where data/fewshot lies")("samples", po::value<std::string>(),
                                 "write the scorer cases as we judge them into lm-eval's sample "
                                 "files in this folder, and stop")(
      "quiet,q", "print failures and the summary only");
  po::variables_map values;
  if (!parse_command("golden DIR [options]", "", options, {"dir"}, arguments, values)) return 0;
  if (!values.count("dir")) throw usage_error("golden needs the folder of the golden data");
  golden_options o;
  o.directory = values["dir"].as<std::vector<std::string>>().front();
  if (values.count("method")) o.methods = values["method"].as<std::vector<std::string>>();
  o.quiet = values.count("quiet") > 0;
  o.limit = values["limit"].as<int>();
  o.max_rows = values["max-rows"].as<std::int64_t>();
  if (o.limit < 0) throw usage_error("--limit is at least 0");
  if (o.max_rows < 0) throw usage_error("--max-rows is at least 0");
  o.backend = &device_named(values["device"].as<std::string>());

  if (values.count("samples")) {
    scorers::write_scorer_samples(o.directory, values["samples"].as<std::string>());
    return 0;
  }
  golden_summary sum;
  const auto add = [&](const golden_summary& part) {
    sum.passed += part.passed;
    sum.failed += part.failed;
    sum.skipped += part.skipped;
    sum.left_out += part.left_out;
  };
  std::vector<golden_result> harnesses;
  if (o.methods.empty()) {
    harnesses =
        replay_evaluation(o,
                          values.count("data") ? values["data"].as<std::vector<std::string>>()
                                               : std::vector<std::string>{},
                          values["experiments-dir"].as<std::string>(), sum);
  }
  for (const golden_result& file : harnesses) {
    print_result(file, o.quiet);
    add({file.passed, file.failed});
  }
  if (harnesses.empty() || std::filesystem::exists(o.directory / "decode")) {
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
  fmt::print("{} passed, {} failed", sum.passed, sum.failed);
  if (sum.skipped > 0) fmt::print(", {} skipped", sum.skipped);
  if (sum.left_out > 0) fmt::print(", {} left out by --limit or --max-rows", sum.left_out);
  fmt::print("\n");
  return static_cast<int>(sum.failed == 0 ? exit_code::ok : exit_code::run_failed);
}

}  // namespace unmask
