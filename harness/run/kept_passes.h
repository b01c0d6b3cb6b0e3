// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Passes of points that have no row yet, so that a killed run loses the pass in flight and no more:
// FOLDER/unfinished/POINT.passes, one line of JSON a pass, each on the disk before the next begins.
// The file goes when the row of its point is written. The id of a point holds its settings, model and
// workload; the first line of the file holds the program and the machine: passes of another program or
// machine are not taken up.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/measure/record.h"
#include "harness/rows/store.h"

namespace unmask {

// One line for a pass and back, without loss. Columns of its answers that are those of `first`, the
// first pass of the point, are left out; null: nothing is. Errors of passes_of() are the caller's.
std::string pass_line(const pass_record& pass, const pass_record* first);
pass_record pass_of_line(const std::string& line, const pass_record* first);

// What an earlier run left of a point.
struct unfinished_point {
  std::vector<pass_record> passes;
  std::vector<double> warmup_seconds;
  std::string memory;  // prepared_point::memory() after the last of them
};

class kept_passes {
 public:
  // `circumstances`: what a pass must share with another to stand in one row with it. `say` is told,
  // in a sentence, what cannot be kept or taken up.
  kept_passes(std::filesystem::path rows_folder, std::string circumstances,
              std::function<void(const std::string&)> say);
  // The passes of a point that can go on. `prompts`: the hash of what its model is asked. A file of
  // other circumstances or prompts is removed and said.
  unfinished_point take_up(const std::string& point, const std::string& prompts = "");
  // Adds a pass of a point. A pass that cannot be kept is said once a run and costs nothing else.
  void keep(const std::string& point, const pass_record& pass, const pass_record* first,
            const std::vector<double>& warmup_seconds, const std::string& memory,
            const std::string& prompts = "");
  void drop(const std::string& point);  // its row is written, or its passes are not wanted
  std::size_t count() const;            // passes kept of points that this run has seen

 private:
  std::filesystem::path file_of(const std::string& point) const;
  std::filesystem::path folder_;
  std::string circumstances_;
  std::function<void(const std::string&)> say_;
  std::map<std::string, std::unique_ptr<line_file>> open_;
  std::map<std::string, std::size_t> counts_;
  bool said_ = false;
};

}  // namespace unmask
