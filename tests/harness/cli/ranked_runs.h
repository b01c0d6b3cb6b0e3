// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Runs of several ranks in a folder of their own, and the processes that follow them.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/base/files.h"

namespace unmask::test {

class ranked_runs : public ::testing::Test {
 protected:
  // An experiment of `limit` problems with these methods.
  void write(const std::string& methods, int limit = 2, const std::string& more = "",
             const std::string& model = "tiny-sdar", int repetitions = 1) {
    std::ofstream out(folder() + "/x.toml");
    out << "title = \"t\"\n[run]\nwarmup = 0\nrepetitions = " << repetitions
        << "\nbatch_size = 2\ngen_length = 32\n"
        << more << "[[model]]\npath = \"" UNMASK_SOURCE_DIR "/experiments/models/" << model
        << "\"\n[[workload]]\nfile = \"" UNMASK_SOURCE_DIR
           "/experiments/data/word_problem.jsonl\"\nlimit = "
        << limit << "\n";
    std::istringstream names(methods);
    for (std::string name; names >> name;) out << "[[method]]\nname = \"" << name << "\"\n";
  }
  std::vector<nlohmann::json> rows_in(const std::string& output) const {
    std::ifstream in(std::filesystem::path(folder()) / output / "rows.jsonl");
    std::vector<nlohmann::json> rows;
    for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  }
  std::string folder() const { return scratch_.path().string(); }

 private:
  const scratch_folder scratch_;
};

// Processes whose environment says that they follow a run of this folder.
inline std::vector<pid_t> followers_in(const std::string& folder) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "environ", std::ios::binary);
    const std::string all((std::istreambuf_iterator<char>(in)), {});
    std::error_code none;
    if (all.find("UNMASK_FOLLOWS=") != std::string::npos &&
        std::filesystem::read_symlink(entry.path() / "cwd", none) ==
            std::filesystem::path(folder)) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

template <class Condition>
bool comes_true(const Condition& condition, double seconds = 20) {
  for (double waited = 0; waited < seconds; waited += 0.02) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace unmask::test
