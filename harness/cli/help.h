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
// "0.1.0, commit ..., RelWithDebInfo, gcc 12.2.0, CUDA 13.0.88 for 80 90a-real", or "CPU only" at the end.
std::string version_text();
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
