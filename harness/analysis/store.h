// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Result files: JSON Lines that only ever grow. A row is one write and one fsync, so a killed run
// loses the point in flight and nothing else.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "harness/analysis/row.h"

namespace unmask {

// Appends lines to one file. Holds an advisory lock: two runs cannot interleave in one file.
class line_file {
 public:
  // Creates the file if needed. A torn last line (no newline, left by a crash) is cut off; a whole
  // row that only lacks its newline is kept.
  explicit line_file(const std::filesystem::path& path);
  ~line_file();
  line_file(const line_file&) = delete;
  line_file& operator=(const line_file&) = delete;

  void append(const std::string& line);  // on disk when it returns
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

struct stored_rows {
  std::vector<result_row> rows;
  std::size_t torn = 0;  // last lines that were cut short, ignored
};

// Rows of a file, or of every *.jsonl of a directory (samples_* aside) in order of their names.
// Environment errors: a broken line that is not the last, an unknown schema.
stored_rows read_rows(const std::filesystem::path& path);

// Ids whose measurement is over: every verdict but FAILED. Those are not run again on resume.
std::set<std::string> completed_points(const std::vector<result_row>& rows);

// Where a run or one part of several writes: rows.jsonl, or part-00000-of-00004.jsonl.
std::filesystem::path rows_file(const std::filesystem::path& directory, std::size_t part,
                                std::size_t parts);

}  // namespace unmask
