// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/text.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <cstddef>
#include <cstdint>

namespace unmask {
namespace {

bool is_space(UChar32 c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

struct code_point {
  UChar32 value;  // below 0: a byte that starts no valid character
  std::size_t bytes;
};

code_point code_point_at(std::string_view text, std::size_t at) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t end = at;
  UChar32 c = 0;
  U8_NEXT(bytes, end, text.size(), c);
  return {c, c < 0 ? 1 : end - at};
}

std::string_view lstrip(std::string_view text) {
  while (!text.empty()) {
    const code_point c = code_point_at(text, 0);
    if (!is_space(c.value)) break;
    text.remove_prefix(c.bytes);
  }
  return text;
}

}  // namespace

std::string_view rstrip(std::string_view text) {
  while (!text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    const code_point c = code_point_at(text, begin);
    if (begin + c.bytes != text.size() || !is_space(c.value)) break;
    text.remove_suffix(c.bytes);
  }
  return text;
}

std::string_view strip(std::string_view text) {
  return rstrip(lstrip(text));
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = code_point_at(text, at);
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

std::string lower(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
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

}  // namespace unmask
