// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>
#include <unicode/utf8.h>

#include "harness/base/error.h"

namespace unmask {
namespace {

// ICU counts in int32; texts are cut off well before.
std::int32_t checked_size(std::string_view text) {
  if (text.size() > (std::size_t{1} << 30)) {
    throw usage_error("a text of more than 1 GiB cannot be tokenized; split it");
  }
  return static_cast<std::int32_t>(text.size());
}

}  // namespace

std::string repair_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const std::int32_t size = checked_size(text);
  std::string out;
  out.reserve(text.size());
  for (std::int32_t i = 0; i < size;) {
    const std::int32_t begin = i;
    UChar32 c;
    U8_NEXT(bytes, i, size, c);
    if (c < 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out.append(text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(i - begin)));
    }
  }
  return out;
}

namespace {

// Null: ICU has no data.
const icu::Normalizer2* old_nfc() {
  static const icu::Normalizer2* const made = [] {
    UErrorCode status = U_ZERO_ERROR;
    const icu::Normalizer2* nfc = icu::Normalizer2::getNFCInstance(status);
    // Both live as long as the program.
    auto* known = new icu::UnicodeSet(icu::UnicodeString(u"[:age=9.0:]"), status);
    if (U_FAILURE(status)) return static_cast<const icu::Normalizer2*>(nullptr);
    known->freeze();
    return static_cast<const icu::Normalizer2*>(new icu::FilteredNormalizer2(*nfc, *known));
  }();
  return made;
}

}  // namespace

std::string normalize_nfc(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfc = old_nfc();
  if (nfc == nullptr) {
    throw environment_error("the ICU library has no data for Unicode normalisation");
  }
  const icu::StringPiece piece(text.data(), checked_size(text));
  if (nfc->isNormalizedUTF8(piece, status) && U_SUCCESS(status)) return std::string(text);
  status = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  nfc->normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status)) throw environment_error("ICU could not normalise a text");
  return out;
}

std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int32_t>(text.size());
  auto i = static_cast<std::int32_t>(at);
  U8_FWD_1(bytes, i, size);
  return static_cast<std::size_t>(i) - at;
}

std::size_t trailing_space(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  auto i = static_cast<std::int32_t>(text.size());
  std::int32_t begin = i;
  while (i > 0) {
    UChar32 c;
    U8_PREV(bytes, 0, i, c);
    if (c < 0 || !u_isUWhiteSpace(c)) break;
    begin = i;
  }
  return text.size() - static_cast<std::size_t>(begin);
}

std::size_t leading_space(std::string_view text) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
  const auto size = static_cast<std::int32_t>(text.size());
  std::int32_t end = 0;
  for (std::int32_t i = 0; i < size;) {
    UChar32 c;
    U8_NEXT(bytes, i, size, c);
    if (c < 0 || !u_isUWhiteSpace(c)) break;
    end = i;
  }
  return static_cast<std::size_t>(end);
}

}  // namespace unmask
