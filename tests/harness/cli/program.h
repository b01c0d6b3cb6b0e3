// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The program as a user calls it.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace unmask::test {

struct outcome {
  int code = -1;
  std::string text;  // standard output and error
};

// `unmask arguments` in a folder; `variables` is put before it ("PATH=/nowhere").
inline outcome run_program(const std::string& folder, const std::string& arguments,
                           const std::string& variables = "") {
  const std::string line =
      "cd '" + folder + "' && " + variables + " '" + UNMASK_PROGRAM + "' " + arguments + " 2>&1";
  outcome o;
  FILE* pipe = popen(line.c_str(), "r");
  std::array<char, 4096> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) o.text += buffer.data();
  const int status = pclose(pipe);
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return o;
}

}  // namespace unmask::test
