// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Reads the keys that a table declares (keys.h). For the .cpp files that read TOML: includes toml++.
#pragma once

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/keys.h"
#include "harness/plan/locate.h"
#include "harness/plan/settings.h"

namespace unmask {

// A path as a file names it: from its own folder, or "experiments/..." of what comes with the program
// where its folder has none.
inline std::filesystem::path beside(const std::filesystem::path& file, const std::string& path) {
  const std::filesystem::path given(path);
  if (given.is_absolute()) return given;
  const std::filesystem::path near = (file.parent_path() / given).lexically_normal();
  std::error_code none;
  if (!path.starts_with("experiments/") || std::filesystem::exists(near, none)) return near;
  return find_embedded(given, {}).value_or(near);
}

class key_reader {
 public:
  // head: "[[model]]", for messages. file: what paths are beside.
  key_reader(toml_reader& r, std::string head, std::filesystem::path file)
      : r_(r), head_(std::move(head)), file_(std::move(file)) {}

  void operator()(const file_key& key, std::string& into) {
    r_.text(name_in_file(key), into);
    read_.push_back({key, {into}});
  }
  void operator()(const file_key& key, std::vector<std::string>& into) {
    r_.texts(key.name, into);
    read_.push_back({key, into});
  }
  void operator()(const file_key& key, std::filesystem::path& into) {
    std::string text = into.string();
    (*this)(key, text);
    into = key.is_looked_up || text.empty() ? std::filesystem::path(text) : beside(file_, text);
  }
  void operator()(const file_key& key, std::int64_t& into) {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    r_.integer(key.name, into, static_cast<std::int64_t>(key.low),
               key.high == unbounded ? most : static_cast<std::int64_t>(key.high));
  }
  void operator()(const file_key& key, double& into) { r_.real(key.name, into, key.low, key.high); }
  void operator()(const file_key& key, bool& into) { r_.flag(key.name, into); }
  void operator()(const file_key& key, parameter_map& into) { r_.scalars(key.name, into); }
  void operator()(const file_key& key, std::vector<dotted_setting>& into) {
    parameter_map settings;
    r_.scalars(key.name, settings);
    for (const auto& [name, value] : settings) {
      const std::string where = r_.where() + ": " + r_.name_of(key.name);
      check_setting_key(name, where);
      into.push_back({name, value, where});
    }
  }
  void range(const file_key& key, const std::string& of, std::int64_t& low, std::int64_t& high) {
    const toml::node* node = r_.find(key.name);
    if (node == nullptr) return;
    const toml::array* both = node->as_array();
    const auto bound = [&](std::size_t i) {
      return both != nullptr && both->size() == 2 ? (*both)[i].value<std::int64_t>() : std::nullopt;
    };
    const auto least = bound(0), most = bound(1);
    if (!least || !most || *least < 0 || *most < *least || *most == 0) {
      r_.fail(*node, r_.name_of(key.name) + " takes [LOW, HIGH], " + of + " in rising order");
    }
    low = *least;
    high = *most;
  }
  void one_or_more(const file_key& key, std::vector<std::string>& into) {
    const toml::node* node = r_.find(key.name);
    if (node == nullptr) return;
    if (node->is_array()) {
      r_.texts(key.name, into);
    } else {
      r_.text(key.name, into.emplace_back());
    }
  }
  void hashed(const file_key& key, std::filesystem::path& into, const std::string&) {
    (*this)(key, into);
  }
  void over(const file_key& key, const char*) { r_.find(key.name); }

  // Usage errors for words that are none, and for what is needed and not there.
  void check() const {
    for (const auto& [key, texts] : read_) {
      const bool there = std::ranges::any_of(texts, [](const auto& text) { return !text.empty(); });
      if (key.is_needed && !there && (key.words == nullptr || texts.empty())) {
        const std::string what = *key.lacking == '\0' ? "" : std::string(", ") + key.lacking;
        throw usage_error(r_.where() + ": " + head_ + " needs `" + key.name + "`" + what);
      }
      if (key.words == nullptr) continue;
      for (const std::string& word : texts) r_.choice(key.what, word, key.words());
    }
  }

 protected:
  toml_reader& r_;

 private:
  const char* name_in_file(const file_key& key) {
    if (*key.former == '\0') return key.name;
    const toml::node* older = r_.find(key.former);
    if (older == nullptr) return key.name;
    if (r_.find(key.name) == nullptr) return key.former;
    r_.fail(*older, r_.name_of(key.former) + " is an older name of " + r_.name_of(key.name) +
                        "; give one of them");
  }

  struct read_key {
    file_key key;
    std::vector<std::string> texts;
  };
  std::string head_;
  std::filesystem::path file_;
  std::vector<read_key> read_;
};

}  // namespace unmask
