// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/display.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <cstdint>

namespace unmask {
namespace {

int width_of(UChar32 c) {
  const int type = u_charType(c);
  if (type == U_NON_SPACING_MARK || type == U_ENCLOSING_MARK || type == U_FORMAT_CHAR) return 0;
  const int wide = u_getIntPropertyValue(c, UCHAR_EAST_ASIAN_WIDTH);
  return wide == U_EA_WIDE || wide == U_EA_FULLWIDTH ? 2 : 1;
}

// Calls visit(bytes before the character, its width) for every character until it returns false.
template <class Visit>
void each_character(std::string_view line, const Visit& visit) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(line.data());
  const auto size = static_cast<std::int32_t>(line.size());
  for (std::int32_t i = 0; i < size;) {
    const std::int32_t begin = i;
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(bytes, i, size, c);
    if (!visit(static_cast<std::size_t>(begin), width_of(c))) return;
  }
}

}  // namespace

int display_width(std::string_view line) {
  int columns = 0;
  each_character(line, [&](std::size_t, int width) {
    columns += width;
    return true;
  });
  return columns;
}

std::string cut_to_width(std::string_view line, int columns) {
  if (columns <= 0) return "";
  if (display_width(line) <= columns) return std::string(line);
  std::size_t end = 0;
  int used = 0;
  each_character(line, [&](std::size_t begin, int width) {
    end = begin;
    used += width;
    return used <= columns - 1;  // one for the sign that something is left out
  });
  return std::string(line.substr(0, end)) + "\xE2\x80\xA6";
}

}  // namespace unmask
