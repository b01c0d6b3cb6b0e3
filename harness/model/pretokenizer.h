// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/regex.h"

namespace unmask {

inline constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Cuts a text into the pieces inside which byte pairs may merge.
class pretokenizer {
 public:
  enum class behavior : std::uint8_t { isolated, removed };

  // Cut every piece at the matches of a pattern. isolated: matches and what lies between become
  // pieces; removed: the matches vanish. invert swaps matches and what lies between.
  void add_split(const std::string& pattern, behavior kind, bool invert);
  // A space before every piece that does not begin with one.
  void add_prefix_space();

  std::vector<std::string> split(std::string_view text) const;

 private:
  struct step {
    std::vector<regex> pattern;  // one, or none for the prefix space
    behavior kind = behavior::isolated;
    bool invert = false;
  };
  std::vector<step> steps_;
};

}  // namespace unmask
