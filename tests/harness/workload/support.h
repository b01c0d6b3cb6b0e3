// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harness/workload/scorer.h"
#include "tests/support.h"

namespace unmask::test {

inline std::string shipped(const std::string& family) {
  return std::string(UNMASK_SOURCE_DIR) + "/experiments/data/" + family + ".jsonl";
}

// The first records of public datasets and traces (tests/data/README.md).
inline std::string public_data(const std::string& name) {
  return std::string(UNMASK_SOURCE_DIR) + "/tests/data/" + name;
}

inline const char* const families[] = {"word_problem", "equation", "list_program", "instruction",
                                       "retrieval_kv", "needle",   "summary",      "story",
                                       "ledger",       "copy",     "reverse",      "sort",
                                       "insert",       "shuffle",  "latin_square"};

// A file in a folder of its own, gone when the test ends.
class scratch_file {
 public:
  scratch_file(const std::string& name, const std::string& text) : path_(folder_.path() / name) {
    write_file(path_, text);
  }
  std::string path() const { return path_.string(); }

 private:
  scratch_folder folder_;
  std::filesystem::path path_;
};

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
