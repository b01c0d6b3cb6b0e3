// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The TOML table of an experiment, laid over a file that it extends, with one of its scales over both.
// Includes toml++.
//
// `extends = "other.toml"` names a file next to this one or with the program; that file may extend
// another. Of the two tables:
// * Tables merge key by key, and this file's values replace the other's; so do arrays.
// * [[model]], [[workload]] and [[method]], also of a scale, merge entry by entry: one of a name that
//   the other file has changes that entry, one of a new name is added behind. The name is that of rows:
//   the label of a method; of a model or workload `name`, else what it is read from.
// * `remove = true` in a table takes away what it had; its other keys are then all that it has. In an
//   entry with its name alone, that entry; in an entry without a name, all of the other file.
// * An empty array in [sweep] takes an axis away.
// * [artifact] stays with its file. Relative paths belong to the file that names them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <toml++/toml.h>

#include "harness/plan/confine.h"
#include "harness/plan/spec.h"

namespace unmask {

struct extended_table {
  toml::table table;  // without the key `extends`; its nodes know their own file and line
  std::filesystem::path extends;             // what the file says; empty: it extends none
  std::vector<std::filesystem::path> files;  // that the table is of, the file itself last
};

// Usage errors with file, line and key: broken TOML, a file that is not there or outside `bounds`,
// files that extend each other, a name to change or to remove that the other file does not have.
extended_table with_what_it_extends(const std::string& text, const std::filesystem::path& file,
                                    const path_bounds& bounds);

// The text itself, or TOML of the whole table where it extends another: it says the same anywhere in
// the folder of `file`. Errors as above.
std::string whole_text(const std::string& text, const std::filesystem::path& file,
                       const path_bounds& bounds);

struct experiment_table {
  toml::table table;              // without the keys `scale` and `extends`
  std::filesystem::path extends;  // what the file says of the one that it extends
  std::vector<scale_entry> scales;
  scale_entry scale;  // the chosen one; without a name: the file has none
};

// Usage errors: broken TOML, an unknown key of a scale, a scale that does not exist.
experiment_table overlaid_table(const std::string& text, const std::filesystem::path& file,
                                const std::string& scale, const path_bounds& bounds);

// "" when the file has no scales or "tiny"; else its first scale.
std::string some_scale(const std::string& text, const std::filesystem::path& file);

}  // namespace unmask
