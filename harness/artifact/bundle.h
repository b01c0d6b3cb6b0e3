// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A run as one file that another machine can repeat: FILE.tar holds run.json (the experiment, its
// scale and settings, every resolved point), the rows, the environment, tables and figures, how to
// repeat it, and the SHA-256 of each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/artifact/selector.h"
#include "harness/experiment/manifest.h"

namespace unmask {

// Packs a run directory. The same directory gives the same bytes: names sorted, no times, no owner.
// Logs and hidden or unfinished files stay behind. Environment error: no run.json or no rows there,
// a link, or GNU tar is missing. Returns the names inside.
std::vector<std::string> write_bundle(const std::filesystem::path& run_directory,
                                      const std::filesystem::path& file);

struct unpacked_bundle {
  std::filesystem::path directory;  // where its files lie
  run_manifest manifest;
  std::vector<result_row> rows;
};
// Unpacks below `into` and checks every hash. Environment error that names the file when one is
// missing, changed or not listed.
unpacked_bundle read_bundle(const std::filesystem::path& file, const std::filesystem::path& into);

struct run_difference {
  std::string point;  // what was run, for the eye
  std::string what;   // metric or property
  std::string before, after;
};

struct run_comparison {
  std::size_t points = 0;  // in both
  std::size_t same_tokens = 0;
  std::size_t ratios = 0, ratios_within = 0;  // speed ratios whose intervals overlap
  std::vector<run_difference> differences;
  std::vector<std::string> notes;  // what may explain them: other kernels, another commit
  bool same() const { return differences.empty(); }
};

// Point by point: weights, workload, answers, every counted metric, score and verdict must be
// equal; of speeds the ratios to the first method in the same circumstances, whose intervals must
// overlap. Points that calibrate themselves on measured times are held to their score only.
run_comparison compare_runs(const std::vector<result_row>& before,
                            const std::vector<result_row>& after);
std::string comparison_text(const run_comparison& comparison);

}  // namespace unmask
