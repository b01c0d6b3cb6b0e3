// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Pieces of UTF-8 texts. White space is Unicode's, with the separators U+001C to U+001F: what the
// trainers of the embedded models and the chat templates take for it. A byte that belongs to no valid
// character is none, so that a model's broken output is never fatal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask {

std::string_view strip(std::string_view text);                  // without white space at both ends
std::string_view rstrip(std::string_view text);                 // without that at the end
std::vector<std::string_view> words_of(std::string_view text);  // between white space
// Keeps empty pieces; the separator must not be empty.
std::vector<std::string_view> split(std::string_view text, std::string_view separator);
std::string lower(std::string_view text);  // by Unicode's full case mapping, of no language
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "`text`" cut to a length that fits in a one-line note.
std::string in_ticks(std::string_view text);

}  // namespace unmask
