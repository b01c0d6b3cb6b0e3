// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/workload/scorer.h"

namespace unmask::test {

inline std::string shipped(const std::string& family) {
  return std::string(UNMASK_SOURCE_DIR) + "/experiments/data/" + family + ".jsonl";
}

// The first records of public datasets and traces (tests/data/README.md).
inline std::string public_data(const std::string& name) {
  return std::string(UNMASK_SOURCE_DIR) + "/tests/data/" + name;
}

inline const char* const families[] = {"word_problem", "equation", "list_program", "instruction",
                                       "retrieval_kv", "needle",   "summary",      "story"};

// A file in the test's own folder, gone when the test ends.
class scratch_file {
 public:
  scratch_file(const std::string& name, const std::string& text) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("unmask_") + test->test_suite_name() + "_" + test->name());
    std::filesystem::create_directories(folder_);
    path_ = folder_ / name;
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~scratch_file() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
};

// The code and sentence of the error that `action` ends with; "no error" without one.
template <class function>
std::pair<exit_code, std::string> error_of(function action) {
  try {
    action();
  } catch (const error& problem) {
    return {problem.code(), problem.what()};
  }
  return {exit_code::ok, "no error"};
}

template <class function>
void expect_error(exit_code code, const std::string& part, function action) {
  const auto [got, sentence] = error_of(action);
  EXPECT_EQ(static_cast<int>(got), static_cast<int>(code)) << sentence;
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence << "\nlacks: " << part;
}

inline task_item item_of(const std::string& scorer, const std::string& answer,
                         const std::string& check) {
  task_item item;
  item.id = "case";
  item.scorer = scorer;
  item.answer = answer;
  item.check = check;
  return item;
}

}  // namespace unmask::test
