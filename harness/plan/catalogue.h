// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The artifacts of a tree of experiments: every TOML file with [artifact].
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/plan/needs.h"

namespace unmask {

struct artifact_scale {
  scale_entry entry;
  std::vector<std::string> needs;  // all of them, implied ones too
  std::string obstacle;            // why it cannot run here; empty: it can
};

struct artifact_entry {
  std::filesystem::path file;
  artifact_header header;
  std::vector<artifact_scale> scales;  // empty: not reproducible
  std::string problem;                 // why the file cannot be read; empty: it can
};

// Lists the artifacts of a folder and those below it, or of one file, sorted by paper, then id in
// natural order (table_2 before table_10). The folders models, data, published, claims and peers
// hold no experiments. Two files with the same paper and id: the second one's problem says so.
std::vector<artifact_entry> find_artifacts(const std::filesystem::path& root,
                                           const machine_view& machine);

// A text by which names sort with their numbers by value: table_2 before table_10.
std::string natural_order(const std::string& text);

// Files below a folder whose names are accepted, in that order.
std::vector<std::filesystem::path> files_below(
    const std::filesystem::path& root, const std::function<bool(const std::string& name)>& accept);

// One line per artifact and scale: paper, id, scale, "runs here" or why not, title.
std::string artifact_listing(const std::vector<artifact_entry>& artifacts);

}  // namespace unmask
