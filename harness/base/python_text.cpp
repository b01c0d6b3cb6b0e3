// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/python_text.h"

#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdlib>

namespace unmask::py {
namespace {

UChar32 icu(char32_t c) {
  return static_cast<UChar32>(c);
}

std::string from_icu(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

icu::UnicodeString to_icu(std::string_view text) {
  return icu::UnicodeString::fromUTF8(
      icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

// Cased characters of one kind and none of the others: str.isupper and str.islower.
bool only_case(std::string_view text, UProperty wanted, UProperty other) {
  bool some = false;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    at += c.bytes;
    if (u_hasBinaryProperty(icu(c.value), other)) return false;
    if (u_charType(icu(c.value)) == U_TITLECASE_LETTER) return false;
    some = some || u_hasBinaryProperty(icu(c.value), wanted);
  }
  return some;
}

// The digits of a number of Python: scripts' digits as ASCII, single underscores between digits
// dropped. Nothing when an underscore stands elsewhere.
std::optional<std::string> plain_digits(std::string_view text) {
  std::string plain;
  bool after_digit = false;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    at += c.bytes;
    if (c.value == '_') {
      if (!after_digit || at >= text.size() || !is_decimal(decode_utf8(text, at).value)) return {};
      after_digit = false;
      continue;
    }
    const int value = decimal_value(c.value);
    if (value < 0 && c.value > 0x7F) return {};
    plain += value < 0 ? static_cast<char>(c.value) : static_cast<char>('0' + value);
    after_digit = value >= 0;
  }
  return plain;
}

}  // namespace

code_point decode_utf8(std::string_view text, std::size_t at) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t end = at;
  UChar32 c = 0;
  U8_NEXT(bytes, end, text.size(), c);
  if (c < 0) return {0xFFFD, 1};
  return {static_cast<char32_t>(c), end - at};
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

std::string_view strip(std::string_view text) {
  return rstrip(lstrip(text));
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

std::u32string decode(std::string_view utf8) {
  std::u32string all;
  for (std::size_t at = 0; at < utf8.size();) {
    const code_point c = decode_utf8(utf8, at);
    all += c.value;
    at += c.bytes;
  }
  return all;
}

std::string encode(char32_t c) {
  return from_icu(icu::UnicodeString(icu(c)));
}

std::string encode(std::u32string_view text) {
  std::string all;
  for (const char32_t c : text) {
    if (c < 0x80) {
      all += static_cast<char>(c);
    } else {
      all += encode(c);
    }
  }
  return all;
}

std::size_t length(std::string_view utf8) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < utf8.size(); ++n) at += decode_utf8(utf8, at).bytes;
  return n;
}

std::string lower(std::string_view text) {
  return from_icu(to_icu(text).toLower(icu::Locale::getRoot()));
}

bool is_upper(char32_t c) {
  return u_hasBinaryProperty(icu(c), UCHAR_UPPERCASE);
}

bool is_upper(std::string_view text) {
  return only_case(text, UCHAR_UPPERCASE, UCHAR_LOWERCASE);
}

bool is_lower(std::string_view text) {
  return only_case(text, UCHAR_LOWERCASE, UCHAR_UPPERCASE);
}

bool is_digit_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    at += c.bytes;
    const int type = u_getIntPropertyValue(icu(c.value), UCHAR_NUMERIC_TYPE);
    if (type != U_NT_DECIMAL && type != U_NT_DIGIT) return false;
  }
  return !text.empty();
}

bool is_decimal(char32_t c) {
  return c < 0x80 ? c >= '0' && c <= '9' : u_charType(icu(c)) == U_DECIMAL_DIGIT_NUMBER;
}

int decimal_value(char32_t c) {
  return is_decimal(c) ? u_charDigitValue(icu(c)) : -1;
}

bool is_word(char32_t c) {
  if (c < 0x80) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  return (U_GET_GC_MASK(icu(c)) & U_GC_L_MASK) != 0 ||
         u_getIntPropertyValue(icu(c), UCHAR_NUMERIC_TYPE) != U_NT_NONE;
}

std::string_view lstrip(std::string_view text) {
  while (!text.empty()) {
    const code_point c = decode_utf8(text, 0);
    if (!is_space(c.value)) break;
    text.remove_prefix(c.bytes);
  }
  return text;
}

std::string_view rstrip(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    at += c.bytes;
    if (!is_space(c.value)) end = at;
  }
  return text.substr(0, end);
}

std::string_view lstrip(std::string_view text, std::string_view set) {
  text.remove_prefix(std::min(text.find_first_not_of(set), text.size()));
  return text;
}

std::string_view rstrip(std::string_view text, std::string_view set) {
  return text.substr(0, text.find_last_not_of(set) + 1);
}

std::string_view strip(std::string_view text, std::string_view set) {
  return lstrip(rstrip(text, set), set);
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) all += separator;
    all += parts[i];
  }
  return all;
}

std::optional<std::string> parse_int(std::string_view text) {
  const auto plain = plain_digits(strip(text));
  if (!plain) return {};
  std::string_view digits = *plain;
  const bool minus = digits.starts_with('-');
  if (minus || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return {};
  digits = lstrip(digits, "0");
  if (digits.empty()) return "0";
  return (minus ? "-" : "") + std::string(digits);
}

std::optional<double> parse_float(std::string_view text) {
  const auto plain = plain_digits(strip(text));
  if (!plain || plain->empty()) return {};
  std::string_view body = *plain;
  if (body.starts_with('-') || body.starts_with('+')) body.remove_prefix(1);
  const std::string name = lower(body);
  if (name != "inf" && name != "infinity" && name != "nan") {
    // strtod also reads hexadecimal numbers and "nan(...)".
    if (body.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return {};
  }
  char* end = nullptr;
  const double value = std::strtod(plain->c_str(), &end);
  if (end != plain->c_str() + plain->size()) return {};
  return value;
}

}  // namespace unmask::py
