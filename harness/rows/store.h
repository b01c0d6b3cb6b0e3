// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Result files: JSON Lines that only ever grow. A row is one write and one fsync; a write that fails
// is taken back, so that no half row stands before the next one. There is one reader: it steps over a
// line that is no row, says which and why, and gives every other one.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/rows/row.h"

namespace unmask {

// Appends lines to one file. Holds an advisory lock: two runs cannot interleave in one file.
class line_file {
 public:
  // Creates the file if needed. A torn last line (no newline, left by a crash) is moved to FILE.torn;
  // a whole one that only lacks its newline is kept.
  explicit line_file(const std::filesystem::path& path);
  ~line_file();
  line_file(const line_file&) = delete;
  line_file& operator=(const line_file&) = delete;

  // The line is on the disk when it returns. Environment error when it cannot be, with the reason of
  // the system; the file is then as it was before.
  void append(const std::string& line);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool half_ = false;  // a failed line could not be taken back: it must not swallow the next one
};

struct stored_rows {
  std::vector<result_row> rows;
  std::size_t broken = 0;  // lines that were stepped over
};

// Visits every row of a file, or of every *.jsonl of a directory (samples_* aside) in order of their
// names, with its line and "FILE:LINE". Returns how many lines are no rows: each is stepped over and
// said on standard error, once a process. Environment errors: nothing at this path, a file that cannot
// be read, a row of a major schema version that this program does not know.
std::size_t for_each_row(const std::filesystem::path& path,
                         const std::function<void(result_row&& row, const std::string& line,
                                                  const std::string& where)>& visit);
stored_rows read_rows(const std::filesystem::path& path);

// Ids whose measurement is over: every verdict but FAILED, of rows that nobody changed. Those are not
// run again on resume.
std::set<std::string> completed_points(const std::vector<result_row>& rows);

// Where a run or one part of several writes: rows.jsonl, or part-00000-of-00004.jsonl.
std::filesystem::path rows_file(const std::filesystem::path& directory, std::size_t part,
                                std::size_t parts);

}  // namespace unmask
