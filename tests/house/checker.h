// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The rules of the house that no compiler knows: which room may include which, and what every
// source file looks like.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace unmask::house {

struct violation {
  std::string file;  // relative to the root
  int line;          // 1-based; 0: the file as a whole
  std::string rule;  // "include", "cycle", "room", "head", "length", "path", "twice"
  std::string text;  // one sentence
};

// Checks every source file under `root`; sorted by file and line.
std::vector<violation> check(const std::filesystem::path& root);

}  // namespace unmask::house
