// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The sub-commands.
#pragma once

#include <string>
#include <vector>

namespace unmask {

struct command {
  const char* name;
  const char* summary;  // one line of `unmask --help`
  int (*run)(const std::vector<std::string>& arguments);
};

// In the order of `unmask --help`.
const std::vector<command>& commands();

int command_list(const std::vector<std::string>& arguments);
int command_show(const std::vector<std::string>& arguments);
int command_generate(const std::vector<std::string>& arguments);
int command_run(const std::vector<std::string>& arguments);
int command_table(const std::vector<std::string>& arguments);
int command_report(const std::vector<std::string>& arguments);
int command_profile(const std::vector<std::string>& arguments);
int command_claims(const std::vector<std::string>& arguments);
int command_campaign(const std::vector<std::string>& arguments);
int command_bench(const std::vector<std::string>& arguments);
int command_crossover(const std::vector<std::string>& arguments);
int command_compare(const std::vector<std::string>& arguments);
int command_bundle(const std::vector<std::string>& arguments);
int command_rerun(const std::vector<std::string>& arguments);
int command_prompts(const std::vector<std::string>& arguments);
int command_score(const std::vector<std::string>& arguments);
int command_plan(const std::vector<std::string>& arguments);
int command_probes(const std::vector<std::string>& arguments);
int command_merge(const std::vector<std::string>& arguments);
int command_completion(const std::vector<std::string>& arguments);
int command_man(const std::vector<std::string>& arguments);
int command_help(const std::vector<std::string>& arguments);
int command_doctor(const std::vector<std::string>& arguments);

}  // namespace unmask
