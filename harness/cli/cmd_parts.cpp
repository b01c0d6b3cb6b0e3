// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the Python package does with runs, their answers and their rows: a run as one file, the same
// again, scores of sample files, probes of traces, a plan as a job array, rows of parts as one file.
#include "harness/base/package.h"
#include "harness/cli/command.h"

namespace unmask {
namespace {

int in_package(std::string name, const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {std::move(name)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_package(words);
}

}  // namespace

int command_bundle(const std::vector<std::string>& arguments) {
  return in_package("bundle", arguments);
}

int command_rerun(const std::vector<std::string>& arguments) {
  return in_package("rerun", arguments);
}

int command_plan(const std::vector<std::string>& arguments) {
  return in_package("plan", arguments);
}

int command_score(const std::vector<std::string>& arguments) {
  return in_package("score", arguments);
}

int command_probes(const std::vector<std::string>& arguments) {
  return in_package("probes", arguments);
}

int command_merge(const std::vector<std::string>& arguments) {
  return in_package("merge", arguments);
}

}  // namespace unmask
