// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A batch scheduler's job array over the parts of experiments: points are independent, so parts of
// a plan can be measured anywhere, in any order, and again after a machine was lost.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask {

struct array_request {
  std::vector<std::vector<std::string>> parts;  // program and arguments, as `unmask run` takes them
  std::filesystem::path directory;              // of rows, logs and the script
  std::vector<std::string> directives;  // more "#SBATCH" lines: "--gres=gpu:1", "--time=4:00:00"
};

// The script of a Slurm job array: task i runs part i. A task that is requeued continues, because
// `run` skips points that have a row; logs are appended to.
std::string slurm_script(const array_request& request);

}  // namespace unmask
