// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The program as a user calls it.
#pragma once

#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "harness/base/process.h"

namespace unmask::test {

struct outcome {
  int code = -1;
  std::string text;  // standard output and error
};

inline int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A word for the shell: a checkout may lie below a folder with blanks and apostrophes.
inline std::string shell_word(const std::string& word) {
  return shell_line({word});
}

// A line for the shell in a folder, with $UNMASK for the program.
inline outcome run_shell(const std::string& folder, const std::string& command) {
  const std::string line = "cd " + shell_word(folder) + " && UNMASK=" + shell_word(UNMASK_PROGRAM) +
                           " && { " + command + "\n} 2>&1";
  outcome o;
  FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 4096> buffer;
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    o.text.append(buffer.data(), n);
  }
  o.code = exit_code_of(pclose(pipe));
  return o;
}

// `unmask arguments` in a folder; `variables` is put before it ("PATH=/nowhere").
inline outcome run_program(const std::string& folder, const std::string& arguments,
                           const std::string& variables = "") {
  return run_shell(folder, variables + " \"$UNMASK\" " + arguments);
}

// The same with a terminal of this size on standard output and error.
inline outcome run_on_terminal(const std::string& folder, const std::string& arguments,
                               unsigned short columns, unsigned short rows,
                               const std::string& variables = "") {
  winsize size{};
  size.ws_col = columns;
  size.ws_row = rows;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    const std::string line = "cd " + shell_word(folder) + " && TERM=xterm " + variables + " exec " +
                             shell_word(UNMASK_PROGRAM) + " " + arguments;
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  outcome o;
  std::array<char, 4096> buffer;
  for (ssize_t n; (n = read(terminal, buffer.data(), buffer.size())) > 0;) {
    o.text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  o.code = exit_code_of(status);
  return o;
}

}  // namespace unmask::test
