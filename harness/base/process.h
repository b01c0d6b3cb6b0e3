// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask {

// Runs a program (looked up on PATH) with these arguments, without a shell, and waits for it.
// Empty files: the output goes where ours goes; otherwise they are written anew. The exit status;
// 128 + N when signal N ended it. Environment error when it cannot be started.
int run_process(const std::vector<std::string>& command,
                const std::filesystem::path& standard_output = {},
                const std::filesystem::path& standard_error = {});

// Words for a POSIX shell with blanks between, each in single quotes where it needs them.
std::string shell_line(const std::vector<std::string>& command);

// The file of the running program.
std::filesystem::path this_program();

// Set in the environment of runs that share a machine with others; and what their rows then say.
inline constexpr const char* shares_machine = "UNMASK_SHARES_MACHINE";
inline constexpr const char* shared_machine_note =
    "other measurements ran on the machine at the same time: times and speeds mean nothing";

}  // namespace unmask
