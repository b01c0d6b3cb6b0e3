// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The Python package `unmask` (harness/python) is what lies behind the rows: prompts and scores of
// published benchmarks, comparisons, claims, layouts, figures. This is the only place that calls it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask {

// The tree or installation this program, or module, belongs to: the nearest folder above it that holds
// harness/python, or share/unmask of one that was installed, or unmask/tree of a wheel; of a build folder
// elsewhere the tree that it was made from; $UNMASK_ROOT where the program was packed without them. Never the current folder.
// Empty where there is none.
std::filesystem::path program_root();

// The folder that holds the Python package `unmask`: harness/python of program_root(); of a wheel, where
// the root is a folder in the package, the one that the package is in. Empty where there is none.
std::filesystem::path package_folder();

// The words that start `python -m unmask ARGUMENTS`: $UNMASK_PYTHON, else the .venv of
// program_root(), else python3 on PATH; the current folder is not on Python's path. The package finds
// this program in $UNMASK_PROGRAM. Variables PYTHON... of the user's do not reach it, and it writes
// UTF-8 in any locale. Environment error where there is no package beside the program.
std::vector<std::string> package_command(const std::vector<std::string>& arguments);

// Runs it and waits; its output goes where ours goes. Returns its exit status. The package's --help
// shows `help`, what the program says of the command: its summary, then its examples, a line each.
// Environment error "NOT RUN: needs Python ..." if it cannot be started.
int run_package(const std::vector<std::string>& arguments, const std::string& help = "");

// How the package ended, and the last line that it wrote on standard error, without the words that
// every message of it begins with; "status N" if it wrote none.
struct package_end {
  int status = 0;
  std::string reason;
};

// As run_package(), for a caller whose own message names the reason: standard error goes where ours
// goes once the package has ended, and without the reason if it failed.
package_end run_package_for_reason(const std::vector<std::string>& arguments);

// What a module of Python is asked for that the package does: that Python can start it.
struct package_wanted {
  std::vector<std::string> arguments;
  std::string help;
};

// As run_package() without coming back: this process becomes Python, so that whoever ends it ends that.
// A process that is another program's stays that: it gets package_wanted.
[[noreturn]] void become_package(const std::vector<std::string>& arguments,
                                 const std::string& help = "");

}  // namespace unmask
