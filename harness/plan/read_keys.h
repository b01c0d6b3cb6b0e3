// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Reads the keys that a table declares (keys.h). For the .cpp files that read TOML: includes toml++.
#pragma once

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/toml_reader.h"
#include "harness/plan/keys.h"

namespace unmask {

inline std::filesystem::path beside(const std::filesystem::path& file, const std::string& path) {
  const std::filesystem::path given(path);
  return given.is_absolute() ? given : (file.parent_path() / given).lexically_normal();
}

class key_reader {
 public:
  // head: "[[model]]", for messages. file: what paths are beside.
  key_reader(toml_reader& r, std::string head, std::filesystem::path file)
      : r_(r), head_(std::move(head)), file_(std::move(file)) {}

  void operator()(const file_key& key, std::string& into) {
    r_.text(key.name, into);
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

 private:
  struct read_key {
    file_key key;
    std::vector<std::string> texts;
  };
  toml_reader& r_;
  std::string head_;
  std::filesystem::path file_;
  std::vector<read_key> read_;
};

}  // namespace unmask
