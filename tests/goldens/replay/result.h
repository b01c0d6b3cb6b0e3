// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <string>
#include <vector>

namespace unmask {

// What the replay of one file of golden cases found.
struct golden_result {
  static constexpr std::size_t most_shown = 10;

  std::string file;
  int passed = 0, failed = 0;
  std::vector<std::string> first_failures;  // at most most_shown, one sentence each

  void add(const std::string& reason) {  // an empty reason: the case passed
    if (reason.empty()) {
      ++passed;
      return;
    }
    ++failed;
    if (first_failures.size() < most_shown) first_failures.push_back(reason);
  }
};

// What the replay of several files found. Cases without their data or model are neither
// passed nor failed: not_run says of each what it needs.
struct golden_results {
  std::vector<golden_result> files;
  std::vector<std::string> not_run;
};

}  // namespace unmask
