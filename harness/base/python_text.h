// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Python's str, for scorers that must agree with Python programs character by character. Texts are
// UTF-8, and white space is what str.isspace says.
#pragma once

#include <cstddef>
#include <optional>
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

std::u32string decode(std::string_view utf8);  // malformed bytes become U+FFFD
std::string encode(std::u32string_view text);
std::string encode(char32_t c);
std::size_t length(std::string_view utf8);  // len(str): code points

std::string lower(std::string_view text);  // str.lower(), with the special cases of Unicode
bool is_upper(char32_t c);                 // str.isupper of one character
bool is_upper(std::string_view text);      // a cased character and none that is not upper case
bool is_lower(std::string_view text);
bool is_digit_text(std::string_view text);  // str.isdigit(): "" is false
bool is_decimal(char32_t c);                // what \d matches: category Nd
int decimal_value(char32_t c);              // 0 to 9, -1 where is_decimal is false
bool is_word(char32_t c);                   // what \w matches: str.isalnum or _

std::string_view lstrip(std::string_view text);  // white space
std::string_view rstrip(std::string_view text);
// lstrip, rstrip and strip of a set of ASCII characters.
std::string_view lstrip(std::string_view text, std::string_view set);
std::string_view rstrip(std::string_view text, std::string_view set);
std::string_view strip(std::string_view text, std::string_view set);

std::string join(const std::vector<std::string>& parts, std::string_view separator);
inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// int(text) as decimal digits without leading zeros, sign kept only before a value that is not 0;
// nothing where Python raises ValueError. White space around it, one underscore between digits and
// digits of any script are allowed, as there.
std::optional<std::string> parse_int(std::string_view text);
// float(text); nothing where Python raises ValueError.
std::optional<double> parse_float(std::string_view text);

}  // namespace unmask::py
