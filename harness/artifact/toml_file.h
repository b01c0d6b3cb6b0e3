// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the readers of this room share. Includes toml++.
#pragma once

#include <filesystem>
#include <string>

#include "harness/artifact/selector.h"
#include "harness/experiment/toml_reader.h"

namespace unmask {

// Whole text of a TOML file; usage error "cannot read the WHAT FILE".
std::string toml_text(const std::filesystem::path& file, const std::string& what);
// Usage error with file and line for broken TOML.
toml::table parsed_toml(const std::string& text, const std::filesystem::path& file);
// A text that must be there and not be empty.
void required_text(toml_reader& reader, const std::string& key, std::string& into);
// A file that must exist, relative to the one that names it.
std::filesystem::path required_file(toml_reader& reader, const std::string& key,
                                    const std::filesystem::path& beside);
// [key] as a selector; `metric` inside it is the metric. Absent: unchanged.
void read_selector(toml_reader& reader, const std::string& key, row_selector& into);

}  // namespace unmask
