// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The papers that experiments/ reproduces, and the folders where their files lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support.h"

namespace unmask::test {

struct paper_files {
  std::string name;
  int tables, figures;  // numbered from 1 in the paper
};

inline const std::vector<paper_files>& papers() {
  static const std::vector<paper_files> all = {{"focus", 6, 15},
                                               {"focus_dllm", 5, 8},
                                               {"sparse_dllm", 8, 7},
                                               {"optimus", 2, 13},
                                               {"ada_dlm", 8, 5}};
  return all;
}

inline std::filesystem::path experiments() {
  return std::filesystem::path(UNMASK_SOURCE_DIR) / "experiments";
}

// "table_1" ... "figure_1" ... of a paper.
inline std::vector<std::string> artifacts_of(const paper_files& paper) {
  std::vector<std::string> ids;
  for (int i = 1; i <= paper.tables; ++i) ids.push_back("table_" + std::to_string(i));
  for (int i = 1; i <= paper.figures; ++i) ids.push_back("figure_" + std::to_string(i));
  return ids;
}

}  // namespace unmask::test
