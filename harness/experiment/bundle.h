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

#include "harness/analysis/row.h"
#include "harness/experiment/request.h"

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

}  // namespace unmask
