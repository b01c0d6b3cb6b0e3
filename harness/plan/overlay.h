// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The TOML table of an experiment with one of its scales laid over it. Includes toml++.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <toml++/toml.h>

#include "harness/plan/spec.h"

namespace unmask {

struct experiment_table {
  toml::table table;  // without the key `scale`
  std::vector<scale_entry> scales;
  scale_entry scale;  // the chosen one; without a name: the file has none
};

// Usage errors: broken TOML, an unknown key of a scale, a scale that does not exist.
experiment_table overlaid_table(const std::string& text, const std::filesystem::path& file,
                                const std::string& scale);

// "" when the file has no scales or "tiny"; else its first scale.
std::string some_scale(const std::string& text, const std::filesystem::path& file);

}  // namespace unmask
