// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The sub-commands.
#pragma once

#include <string>
#include <vector>

namespace unmask {

// All that is said of a command; help, manual and completion are made of it.
struct command {
  const char* name;
  const char* summary;  // its line of `unmask --help`, and the first of its own
  int (*run)(const std::vector<std::string>& arguments);  // nullptr: the package answers
  std::vector<std::string> examples;                      // lines to type, without "unmask"
  const char* group = "";                                 // its heading in `unmask --help`
};

// In the order of `unmask --help`.
const std::vector<command>& commands();
// Usage error for a name that is not in it.
const command& command_named(const std::string& name);
// Runs it, here or in the Python package.
int run_command(const command& c, const std::vector<std::string>& arguments);

int command_list(const std::vector<std::string>& arguments);
int command_show(const std::vector<std::string>& arguments);
int command_generate(const std::vector<std::string>& arguments);
int command_run(const std::vector<std::string>& arguments);
int command_table(const std::vector<std::string>& arguments);
int command_profile(const std::vector<std::string>& arguments);
int command_bench(const std::vector<std::string>& arguments);
int command_prompts(const std::vector<std::string>& arguments);
int command_completion(const std::vector<std::string>& arguments);
int command_man(const std::vector<std::string>& arguments);
int command_help(const std::vector<std::string>& arguments);
int command_doctor(const std::vector<std::string>& arguments);

}  // namespace unmask
