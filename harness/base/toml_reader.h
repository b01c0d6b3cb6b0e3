// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Typed reading of one TOML table. For the .cpp files that read TOML: includes toml++.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <toml++/toml.h>

#include "harness/base/value.h"

namespace unmask {

// Look-ups remember the keys they were asked for; finish() refuses every other key. All errors are
// usage errors that begin with FILE:LINE and name the key.
class toml_reader {
 public:
  // path: "run", "method", ... for messages; "" for the outermost table.
  toml_reader(const toml::table& table, std::string file, std::string path);

  const toml::node* find(const std::string& key);
  void text(const std::string& key, std::string& into);
  void integer(const std::string& key, std::int64_t& into, std::int64_t low,
               std::int64_t high = std::numeric_limits<std::int64_t>::max());
  void flag(const std::string& key, bool& into);
  void real(const std::string& key, double& into, double low, double high);
  void texts(const std::string& key, std::vector<std::string>& into);
  // [[key]] tables in order; a single [key] table counts as one.
  void tables(const std::string& key, const std::function<void(toml_reader&)>& read);
  // [key], when it is there.
  void table(const std::string& key, const std::function<void(toml_reader&)>& read);
  // Scalars of [key] by name.
  void scalars(const std::string& key, parameter_map& into);
  // Every key of this table and of tables below it, as dotted keys.
  void leaves(const std::function<void(const std::string&, const toml::node&)>& visit);
  void finish() const;
  // The place of `word` in `known`; usage error with the nearest where it is none: "unknown WHAT".
  std::size_t choice(const std::string& what, const std::string& word,
                     const std::vector<std::string>& known) const;

  std::string where() const { return where(table_); }
  std::string where(const toml::node& node) const;
  // The file that a value is of: another one where this file extends it.
  std::filesystem::path file_of(const toml::node& node) const;
  [[noreturn]] void fail(const toml::node& node, const std::string& sentence) const;
  std::string name_of(const std::string& key) const;

  // From here on every key that any reader looks up is noted by the path of its table; null: no more.
  // So a test learns what is read, and holds documentation against it.
  using asked_keys = std::map<std::string, std::set<std::string>>;
  static void note_asked(asked_keys* into);

 private:
  const toml::table& table_;
  std::string file_, path_;
  std::set<std::string> known_;
};

// FILE:LINE of a value or key that was read from a file; `file` where it does not know its own.
std::string place_in_file(const toml::source_region& at, const std::string& file);

// The scalar of a node; usage error beginning with `where` for anything else (dates, tables).
parameter_value toml_scalar(const toml::node& node, const std::string& where);

// Whole text of a TOML file; usage error "cannot read the WHAT FILE".
std::string toml_text(const std::filesystem::path& file, const std::string& what);
// Usage error with file and line for broken TOML.
toml::table parsed_toml(const std::string& text, const std::filesystem::path& file);

}  // namespace unmask
