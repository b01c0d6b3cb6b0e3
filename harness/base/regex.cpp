// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/regex.h"

#include <oniguruma.h>

#include <mutex>

#include "harness/base/error.h"
#include "harness/base/unicode.h"

namespace unmask::inline base {
namespace {

constexpr std::size_t longest_pattern = 64 << 10;
constexpr unsigned long retry_limit = 10'000'000;  // per search; no real pattern comes near

std::string reason(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int n = onig_error_code_to_str(text, code, info);
  return {reinterpret_cast<const char*>(text), static_cast<std::size_t>(n > 0 ? n : 0)};
}

void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_retry_limit_in_search(retry_limit);
    onig_set_parse_depth_limit(256);
  });
}

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

}  // namespace

regex::regex(const std::string& pattern) {
  initialize();
  if (pattern.size() > longest_pattern) {
    throw environment_error("the pattern is longer than " + std::to_string(longest_pattern) +
                            " bytes");
  }
  OnigRegex compiled = nullptr;
  OnigErrorInfo info{};
  const int code = onig_new(&compiled, bytes_of(pattern), bytes_of(pattern) + pattern.size(),
                            ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &info);
  if (code != ONIG_NORMAL) {
    throw environment_error("the pattern does not compile (" + reason(code, &info) + ")");
  }
  compiled_ =
      std::shared_ptr<void>(compiled, [](void* p) { onig_free(static_cast<OnigRegex>(p)); });
}

void regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t, std::size_t)>& match) const {
  const auto release = [](OnigRegion* r) { onig_region_free(r, 1); };
  const std::unique_ptr<OnigRegion, decltype(release)> region(onig_region_new(), release);
  const OnigUChar* begin = bytes_of(text);
  const OnigUChar* end = begin + text.size();
  std::size_t last_end = std::string_view::npos;
  for (std::size_t at = 0; at <= text.size();) {
    const int found = onig_search(static_cast<OnigRegex>(compiled_.get()), begin, end, begin + at,
                                  end, region.get(), ONIG_OPTION_NONE);
    if (found == ONIG_MISMATCH) return;
    if (found < 0) {
      throw environment_error("the pre-tokenizer's pattern failed on a text (" +
                              reason(found, nullptr) + ")");
    }
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

}  // namespace unmask::base
