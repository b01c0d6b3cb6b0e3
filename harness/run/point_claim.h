// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Who measures which points of a folder. Shards and whole runs may write into one folder at once as
// long as their points differ; a point that another run has claimed is refused before anything is
// measured. A claim is a file FOLDER/.claims/run-HOST-PID-N: the host, process and start of the
// run, its rows file and its points. It is created exclusively (O_EXCL), held by flock where the
// file system has that, and goes with the run. The claim of a run that is over is found by its free
// lock or, where flock is missing, by its process, which is gone or another; it is then removed.
// The end of a run on another host cannot be seen where the file system has no flock: its claim
// stands, and the error names the file.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace unmask {

class point_claim {
 public:
  // Calls `choose` while no other run can claim points of the folder: it reads what is there and says
  // which points this run will measure. Environment error when a run that still goes on has one of
  // them, or writes the same rows file, or when nothing can be written there.
  point_claim(const std::filesystem::path& folder, const std::string& rows_file,
              const std::function<std::vector<std::string>()>& choose);
  ~point_claim() { release(); }
  point_claim(const point_claim&) = delete;
  point_claim& operator=(const point_claim&) = delete;

  void release();  // the points may be claimed by others

 private:
  void claim(const std::string& rows_file, const std::vector<std::string>& points);
  std::filesystem::path folder_;  // of the claims
  std::filesystem::path file_;    // empty: nothing is claimed
  int descriptor_ = -1;
};

}  // namespace unmask
