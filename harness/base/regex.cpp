// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/regex.h"

#define ONIG_ESCAPE_UCHAR_COLLISION 1  // ICU has a UChar of its own
#include <oniguruma.h>

#include <algorithm>
#include <mutex>

#include "harness/base/error.h"
#include "harness/base/unicode.h"

namespace unmask {
namespace {

constexpr std::size_t longest_pattern = 64 << 10;
constexpr unsigned long retry_limit = 20'000'000;  // per search; no real pattern comes near

std::string reason(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int n = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(n > 0 ? n : 0)};
}

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

// [:punct:] of older engines holds punctuation of Unicode alone; newer ones, and tokenizers, add the nine
// ASCII symbols. Written out, all have it.
std::string with_symbols(const std::string& pattern) {
  constexpr std::pair<std::string_view, std::string_view> spellings[] = {
      {"[:punct:]", "[\\p{P}$+<=>\\^`|~]"}, {"[:^punct:]", "[^\\p{P}$+<=>\\^`|~]"}};
  std::string out;
  int inside = 0;  // of so many brackets
  for (std::size_t at = 0; at < pattern.size();) {
    const std::string_view rest = std::string_view(pattern).substr(at);
    const auto found = std::ranges::find_if(
        spellings, [&](const auto& s) { return inside > 0 && rest.starts_with(s.first); });
    std::size_t taken = rest[0] == '\\' ? std::min<std::size_t>(2, rest.size()) : 1;
    if (found != std::end(spellings)) {
      out += found->second;
      taken = found->first.size();
    } else {
      out += rest.substr(0, taken);
      inside += rest[0] == '[' ? 1 : rest[0] == ']' && inside > 0 ? -1 : 0;
    }
    at += taken;
  }
  return out;
}

// The engine's form of a pattern.
std::shared_ptr<void> compiled(const std::string& pattern) {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_retry_limit_in_search(retry_limit);
    onig_set_parse_depth_limit(256);
  });
  OnigCompileInfo how{5,
                      ONIG_ENCODING_UTF8,
                      ONIG_ENCODING_UTF8,
                      ONIG_SYNTAX_DEFAULT,
                      ONIG_OPTION_NONE,
                      ONIGENC_CASE_FOLD_DEFAULT};
  OnigRegex machine = nullptr;
  OnigErrorInfo info{};
  const int code =
      onig_new_deluxe(&machine, bytes_of(pattern), bytes_of(pattern) + pattern.size(), &how, &info);
  if (code != ONIG_NORMAL) {
    throw environment_error("the pattern does not compile (" + reason(code, &info) + ")");
  }
  return {machine, [](OnigRegex r) { onig_free(r); }};
}

using onig_region = std::unique_ptr<OnigRegion, void (*)(OnigRegion*)>;

// Where the pattern is found from `from` on; null: nowhere.
onig_region found_in(void* pattern, std::string_view text, std::size_t from) {
  onig_region region(onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  const OnigUChar* begin = bytes_of(text);
  const OnigUChar* end = begin + text.size();
  const int found = onig_search(static_cast<OnigRegex>(pattern), begin, end, begin + from, end,
                                region.get(), ONIG_OPTION_NONE);
  if (found == ONIG_MISMATCH) region.reset();
  if (found < 0 && found != ONIG_MISMATCH) {
    throw environment_error("the pre-tokenizer's pattern failed on a text (" +
                            reason(found, nullptr) + ")");
  }
  return region;
}

}  // namespace

regex::regex(const std::string& pattern) {
  if (pattern.size() > longest_pattern) {
    throw environment_error("the pattern is longer than " + std::to_string(longest_pattern) +
                            " bytes");
  }
  compiled_ = compiled(with_symbols(pattern));
}

void regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t, std::size_t)>& match) const {
  std::size_t last_end = std::string_view::npos;
  for (std::size_t at = 0; at <= text.size();) {
    const auto region = found_in(compiled_.get(), text, at);
    if (!region) return;
    const auto from = static_cast<std::size_t>(region->beg[0]);
    const auto to = static_cast<std::size_t>(region->end[0]);
    if (to > from || last_end != to) match(from, to);
    last_end = to;
    at = to > from ? to : to + (to < text.size() ? utf8_length(text, to) : 1);
  }
}

std::string regex_escape(std::string_view text) {
  constexpr std::string_view special = "\\.[]{}()*+?^$|-#&~/ ";
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace unmask
