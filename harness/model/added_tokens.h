// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unmask {

// A token that is cut out of a text as a whole, before normalisation and byte pairs.
struct added_token {
  std::string text;
  std::int32_t id = -1;
  bool special = false;     // skipped when decoding without special tokens
  bool strip_left = false;  // swallows white space before it, or after it
  bool strip_right = false;
  bool normalized = false;  // looked for in the normalised text
};

// Finds added tokens in a text: at the leftmost place where one begins, the longest one.
class added_token_matcher {
 public:
  // index is handed back by matches; special tokens can be left out of a search.
  void add(std::string_view text, std::size_t index, bool special);

  struct match {
    std::size_t begin, end, index;
  };
  // The first match at or after `from`; begin == npos when there is none.
  match next(std::string_view text, std::size_t from, bool with_special) const;

 private:
  struct node {
    std::vector<std::pair<char, std::int32_t>> children;  // few per node: searched in order
    std::int64_t index = -1;
    bool special = false;
  };
  const node* child(const node& n, char c) const;

  std::vector<node> nodes_ = std::vector<node>(1);
};

}  // namespace unmask
