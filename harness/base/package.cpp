// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/package.h"

#include <cstdlib>

#include "harness/base/error.h"
#include "harness/base/process.h"

namespace unmask {
namespace fs = std::filesystem;
namespace {

constexpr const char* package_place = "harness/python";

bool holds_package(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / package_place / "unmask/__main__.py", ignored);
}

}  // namespace

fs::path program_root() {
  if (const char* given = std::getenv("UNMASK_ROOT"); given && holds_package(given)) return given;
  const fs::path program = this_program();
  for (fs::path folder = program.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    for (const fs::path& place : {folder, folder / "share/unmask"}) {
      if (holds_package(place)) return place;
    }
  }
  return {};
}

std::vector<std::string> package_command(const std::vector<std::string>& arguments) {
  const fs::path root = program_root();
  if (root.empty()) {
    throw environment_error(
        "NOT RUN: needs the Python package unmask (harness/python), which is not "
        "beside this program");
  }
  std::error_code ignored;
  const fs::path prepared = root / ".venv/bin/python";
  std::string python = fs::exists(prepared, ignored) ? prepared.string() : "python3";
  if (const char* given = std::getenv("UNMASK_PYTHON"); given && *given) python = given;
  std::vector<std::string> command = {"env",
                                      "PYTHONPATH=" + (root / package_place).string(),
                                      "UNMASK_PROGRAM=" + this_program().string(),
                                      python,
                                      "-P",
                                      "-B",
                                      "-m",
                                      "unmask"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

int run_package(const std::vector<std::string>& arguments, const std::string& help) {
  std::vector<std::string> command = package_command(arguments);
  const std::string python = command[3];
  command.insert(command.begin() + 1, "UNMASK_HELP=" + help);
  const int status = run_process(command);
  if (status == 126 || status == 127) {
    throw environment_error("NOT RUN: needs Python 3.11 (" + python +
                            " cannot be started); ./dev setup prepares it, $UNMASK_PYTHON names "
                            "another");
  }
  return status;
}

}  // namespace unmask
