// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Text as the reference scorers (Python) see it: white space is what str.isspace says, in UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace unmask::py {

// The code point that starts at text[at], and its length in bytes. A byte that starts no valid
// UTF-8 sequence counts as one character U+FFFD, so that broken model output is never fatal.
struct code_point {
  char32_t value;
  std::size_t bytes;
};
code_point decode_utf8(std::string_view text, std::size_t at);

bool is_space(char32_t c);                                      // str.isspace of one character
std::string_view strip(std::string_view text);                  // str.strip()
std::vector<std::string_view> words_of(std::string_view text);  // str.split()
// str.split(separator): keeps empty pieces; the separator must not be empty.
std::vector<std::string_view> split(std::string_view text, std::string_view separator);
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "`text`" cut to a length that fits in a one-line note.
std::string in_ticks(std::string_view text);

}  // namespace unmask::py
