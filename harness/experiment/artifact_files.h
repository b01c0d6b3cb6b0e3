// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What harness/analysis needs to know of experiment files: an artifact's layout, and where its rows
// lie.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/analysis/layout.h"
#include "harness/experiment/needs.h"

namespace unmask {

// Usage errors that name file, line and key.
paper_layout read_layout(const std::filesystem::path& file, const std::string& scale);

// A measured run of an artifact: its rows, and the experiment file and scale they came from.
struct artifact_run {
  std::string name;  // "focus_table_5"
  std::filesystem::path file, rows;
  std::string scale;
};
// The runs at or below a path, in natural order: as the run.json beside their rows says, else as
// their place PAPER/ARTIFACT/SCALE does. `artifact` given: the path itself, of that file and scale.
std::vector<artifact_run> runs_below(const std::filesystem::path& path, const std::string& artifact,
                                     const std::string& scale,
                                     const std::filesystem::path& experiments);

// Below an artifact's place: folders with more evidence of some of its points, rows of their own.
inline constexpr const char* more_evidence = "more";

}  // namespace unmask
