// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Experiments measured in parts, on one machine or many: a job array that measures them, and one
// file of their rows.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask {

// A batch scheduler's job array over the parts of experiments: points are independent, so parts of
// a plan can be measured anywhere, in any order, and again after a machine was lost.
struct array_request {
  std::vector<std::vector<std::string>> parts;  // program and arguments, as `unmask run` takes them
  std::filesystem::path directory;              // of rows, logs and the script
  std::vector<std::string> directives;  // more "#SBATCH" lines: "--gres=gpu:1", "--time=4:00:00"
};

// The script of a Slurm job array: task i runs part i. A task that is requeued continues, because
// `run` skips points that have a row; logs are appended to.
std::string slurm_script(const array_request& request);

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
