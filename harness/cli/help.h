// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What users read of the command line: help, the manual page and shell completion, all from the
// tables that the commands read their options with.
#pragma once

#include <string>

#include "harness/cli/options.h"

namespace unmask {

// "unmask --help": every command in a line, first steps, exit codes.
std::string program_help();
// "unmask COMMAND --help".
std::string help_text(const command_words& words);

// One line each: 0 ok, ...
struct exit_meaning {
  int code;
  std::string meaning;
};
const std::vector<exit_meaning>& exit_codes();

// The manual page, in the macros of man(7).
std::string manual_page();
// Usage error for a shell other than bash and zsh.
std::string completion_script(const std::string& shell);

}  // namespace unmask
