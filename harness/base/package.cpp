// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/package.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/output.h"
#include "harness/base/process.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

constexpr const char* package_place = "harness/python";

// The folder that Python finds the package in, for a root of a tree, of an installation, or of a wheel,
// which is a folder of the package itself; empty for any other folder.
fs::path package_of(const fs::path& root) {
  std::error_code ignored;
  const fs::path inside = root / package_place;
  if (fs::is_regular_file(inside / "unmask/__main__.py", ignored)) return inside;
  const fs::path package = root.parent_path();
  const bool wheel = root.filename() == "tree" && package.filename() == "unmask" &&
                     fs::is_regular_file(package / "__main__.py", ignored);
  return wheel ? package.parent_path() : fs::path();
}

bool holds_package(const fs::path& folder) {
  return !package_of(folder).empty();
}

// The source tree that a build folder outside of it was made from, as CMake notes there; else empty.
fs::path source_of_build(const fs::path& folder) {
  constexpr std::string_view key = "CMAKE_HOME_DIRECTORY:INTERNAL=";
  std::ifstream cache(folder / "CMakeCache.txt");
  for (std::string line; std::getline(cache, line);) {
    if (line.starts_with(key)) return line.substr(key.size());
  }
  return {};
}

}  // namespace

fs::path program_root() {
  if (const char* given = std::getenv("UNMASK_ROOT"); given && holds_package(given)) return given;
  const fs::path code = folder_of_code();
  for (fs::path folder = code; folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& place : {folder, folder / "share/unmask", folder / "tree"}) {
      if (holds_package(place)) return place;
    }
  }
  const fs::path built_from = source_of_build(code.parent_path());
  return holds_package(built_from) ? built_from : fs::path();
}

fs::path package_folder() {
  return package_of(program_root());
}

namespace {

// What starts Python: variables that go, variables that come, and its words.
struct package_call {
  std::string python;
  std::vector<std::string> unset;
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> arguments;
};

package_call call_of_package(const std::vector<std::string>& arguments) {
  const fs::path root = program_root();
  if (root.empty()) {
    throw environment_error(
        "NOT RUN: needs the Python package unmask (harness/python), which is not "
        "beside this program; UNMASK_ROOT names the folder that holds it");
  }
  std::error_code ignored;
  const fs::path prepared = root / ".venv/bin/python";
  package_call call;
  call.python = fs::exists(prepared, ignored) ? prepared.string() : "python3";
  if (const char* given = std::getenv("UNMASK_PYTHON"); given && *given) call.python = given;
  // What the user has set for another Python reaches ours in no case.
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (text.starts_with("PYTHON")) call.unset.emplace_back(text.substr(0, text.find('=')));
  }
  call.set = {{"PYTHONPATH", package_folder().string()},
              {"PYTHONUTF8", "1"},
              {"UNMASK_PROGRAM", this_program().string()}};
  call.arguments = {"-P", "-B", "-m", "unmask"};
  call.arguments.insert(call.arguments.end(), arguments.begin(), arguments.end());
  return call;
}

std::vector<std::string> words_of(const package_call& call) {
  std::vector<std::string> command = {"env"};
  for (const std::string& name : call.unset) command.insert(command.end(), {"-u", name});
  for (const auto& [name, value] : call.set) command.push_back(name + "=" + value);
  command.push_back(call.python);
  command.insert(command.end(), call.arguments.begin(), call.arguments.end());
  return command;
}

error no_python(const std::string& python) {
  return environment_error("NOT RUN: needs Python 3.11 (" + python +
                           " cannot be started); ./dev setup prepares it, $UNMASK_PYTHON names "
                           "another");
}

}  // namespace

std::vector<std::string> package_command(const std::vector<std::string>& arguments) {
  return words_of(call_of_package(arguments));
}

int run_package(const std::vector<std::string>& arguments, const std::string& help) {
  package_call call = call_of_package(arguments);
  call.set.emplace_back("UNMASK_HELP", help);
  const int status = run_process(words_of(call));
  if (status == 126 || status == 127) throw no_python(call.python);
  return status;
}

package_end run_package_for_reason(const std::vector<std::string>& arguments) {
  constexpr std::size_t most_said = 1 << 24;
  const package_call call = call_of_package(arguments);
  const scratch_folder scratch;
  const fs::path file = scratch.path() / "said";
  package_end end{run_process(words_of(call), {}, file), ""};
  if (end.status == 126 || end.status == 127) throw no_python(call.python);
  std::string said = read_file(file, most_said);
  if (end.status != 0) {
    said.erase(said.find_last_not_of(" \n") + 1);
    const std::size_t line = said.rfind('\n') + 1;  // 0 if there is one line
    end.reason = said.substr(line);
    said.erase(line);
    for (const std::string_view start : {"unmask: ", "NOT RUN: "}) {
      if (end.reason.starts_with(start)) end.reason.erase(0, start.size());
    }
    if (end.reason.empty()) end.reason = "status " + std::to_string(end.status);
  }
  write_error(said);
  return end;
}

void become_package(const std::vector<std::string>& arguments, const std::string& help) {
  if (is_a_module()) throw package_wanted{arguments, help};
  const package_call call = call_of_package(arguments);
  std::vector<std::string> command = {call.python};
  command.insert(command.end(), call.arguments.begin(), call.arguments.end());
  for (const std::string& name : call.unset) ::unsetenv(name.c_str());
  for (const auto& [name, value] : call.set) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("UNMASK_HELP", help.c_str(), 1);
  try {
    become_process(command);
  } catch (const error&) {
    throw no_python(call.python);
  }
}

}  // namespace unmask
