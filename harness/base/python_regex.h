// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Python's module `re` over UTF-8, for scorers that must agree with Python programs. Oniguruma does
// the work; the pattern is rewritten first where the two differ: what \s, \w, \d and \b mean, how
// ^, $ and the dot see lines, and that case folding is by single characters.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace unmask::py {

struct match {
  struct span {
    std::size_t begin = std::string_view::npos, end = std::string_view::npos;  // npos: no part
  };
  std::string_view text;     // the whole text that was searched
  std::vector<span> groups;  // 0: the whole match

  std::size_t begin() const { return groups[0].begin; }
  std::size_t end() const { return groups[0].end; }
  bool has(std::size_t group) const { return groups[group].begin != std::string_view::npos; }
  // The group's text, "" when it took no part.
  std::string_view operator[](std::size_t group) const {
    return has(group) ? text.substr(groups[group].begin, groups[group].end - groups[group].begin)
                      : std::string_view{};
  }
};

class pattern {
 public:
  enum flag : unsigned { none = 0, ignore_case = 1, dot_all = 2, multi_line = 4 };

  // Usage error with the engine's reason when the pattern does not compile (re.error there).
  // Supported: what Python's documentation lists but named groups, comments, possessive
  // quantifiers and back references; flags inside the pattern as (?i:...) and (?s:...).
  explicit pattern(const std::string& python, unsigned flags = none);

  std::optional<match> search(std::string_view text, std::size_t from = 0) const;
  std::optional<match> match_at_start(std::string_view text) const;  // re.match
  std::vector<match> find_all(std::string_view text) const;          // re.finditer
  // re.sub with a function of the match, at most `count` times (0: all).
  std::string sub(std::string_view text, const std::function<std::string(const match&)>& by,
                  std::size_t count = 0) const;
  // re.sub with a literal text.
  std::string sub_text(std::string_view text, std::string_view by) const;
  // re.split; the texts of groups are left out.
  std::vector<std::string_view> split(std::string_view text) const;

 private:
  std::shared_ptr<void> compiled_;
};

}  // namespace unmask::py
