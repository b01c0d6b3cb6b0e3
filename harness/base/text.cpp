// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/text.h"

namespace unmask::py {

code_point decode_utf8(std::string_view text, std::size_t at) {
  constexpr code_point broken{0xFFFD, 1};
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1};
  if (first < 0xC2 || first > 0xF4) return broken;
  const std::size_t bytes = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (at + bytes > text.size()) return broken;
  char32_t value = first & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[at + i]);
    if ((next & 0xC0) != 0x80) return broken;
    value = value << 6 | (next & 0x3Fu);
  }
  const bool too_long = (bytes == 3 && value < 0x800) || (bytes == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (too_long || surrogate || value > 0x10FFFF) return broken;
  return {value, bytes};
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view strip(std::string_view text) {
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    if (!is_space(c.value)) {
      if (begin == text.size()) begin = at;
      end = at + c.bytes;
    }
    at += c.bytes;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view{};
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    if (is_space(c.value)) {
      if (begin < at) words.push_back(text.substr(begin, at - begin));
      begin = at + c.bytes;
    }
    at += c.bytes;
  }
  if (begin < text.size()) words.push_back(text.substr(begin));
  return words;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + separator.size());
  }
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::string_view piece : split(text, from)) {
    if (piece.data() != text.data()) result += to;
    result += piece;
  }
  return result;
}

std::string in_ticks(std::string_view text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return "`" + std::string(text) + "`";
  std::size_t end = longest;  // never cut inside a character
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return "`" + std::string(text.substr(0, end)) + "...`";
}

}  // namespace unmask::py
