// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows that were measured in parts, on one machine or many, become one file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask {

struct merge_summary {
  std::size_t points = 0;              // rows written, one per point
  std::size_t superseded = 0;          // earlier attempts at a point, left out
  std::vector<std::string> missing;    // ids of planned points without a row
  std::vector<std::string> unsettled;  // ids whose only row is FAILED
};

// Joins the rows of files or directories of rows (run.json beside them, where there is one, says
// which points were planned) into `output`, in the order of their plan. Rows are copied byte for
// byte. A point that failed and was measured again keeps its last row. Usage errors: a point that
// two parts measured to the end (parts of one plan never share points), and rows of different
// environments (machine, build, drivers) unless `mixed` is set; the message names what differs.
// `output` appears whole or not at all.
merge_summary merge_rows(const std::vector<std::filesystem::path>& sources,
                         const std::filesystem::path& output, bool mixed);

}  // namespace unmask
