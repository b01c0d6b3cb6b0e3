// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/regex.h"

#define ONIG_ESCAPE_UCHAR_COLLISION 1  // ICU has a UChar of its own
#include <oniguruma.h>

#include <mutex>

#include "harness/base/error.h"
#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
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

// The engine's form of a pattern; the reason why it does not compile goes to `failed`.
std::shared_ptr<void> compiled(const std::string& pattern, OnigSyntaxType* syntax,
                               OnigOptionType options, OnigCaseFoldType folding,
                               const std::function<void(const std::string&)>& failed) {
  static std::once_flag once;
  std::call_once(once, [] {
    OnigEncoding encodings[] = {ONIG_ENCODING_UTF8};
    onig_initialize(encodings, 1);
    onig_set_retry_limit_in_search(retry_limit);
    onig_set_parse_depth_limit(256);
  });
  OnigCompileInfo how{5, ONIG_ENCODING_UTF8, ONIG_ENCODING_UTF8, syntax, options, folding};
  OnigRegex machine = nullptr;
  OnigErrorInfo info{};
  const int code =
      onig_new_deluxe(&machine, bytes_of(pattern), bytes_of(pattern) + pattern.size(), &how, &info);
  if (code != ONIG_NORMAL) failed("does not compile (" + reason(code, &info) + ")");
  return {machine, [](OnigRegex r) { onig_free(r); }};
}

using onig_region = std::unique_ptr<OnigRegion, void (*)(OnigRegion*)>;

// Where the pattern is found from `from` on, at `from` alone where it is anchored; null: nowhere.
onig_region found_in(void* pattern, std::string_view text, std::size_t from, bool anchored,
                     const char* whose) {
  onig_region region(onig_region_new(), [](OnigRegion* r) { onig_region_free(r, 1); });
  const OnigUChar* begin = bytes_of(text);
  const OnigUChar* end = begin + text.size();
  auto* machine = static_cast<OnigRegex>(pattern);
  const int found =
      anchored
          ? onig_match(machine, begin, end, begin + from, region.get(), ONIG_OPTION_NONE)
          : onig_search(machine, begin, end, begin + from, end, region.get(), ONIG_OPTION_NONE);
  if (found == ONIG_MISMATCH) region.reset();
  if (found < 0 && found != ONIG_MISMATCH) {
    throw environment_error(std::string(whose) + " pattern failed on a text (" +
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
  compiled_ =
      compiled(pattern, ONIG_SYNTAX_DEFAULT, ONIG_OPTION_NONE, ONIGENC_CASE_FOLD_DEFAULT,
               [](const std::string& why) { throw environment_error("the pattern " + why); });
}

void regex::for_each_match(std::string_view text,
                           const std::function<void(std::size_t, std::size_t)>& match) const {
  std::size_t last_end = std::string_view::npos;
  for (std::size_t at = 0; at <= text.size();) {
    const auto region = found_in(compiled_.get(), text, at, false, "the pre-tokenizer's");
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

namespace py {
namespace {

// Members of a character class: str.isspace, and str.isalnum or the underscore. Python has no
// marks (Mn, Mc) in \w, Oniguruma has.
constexpr const char* space_set = R"(\x{9}-\x{d}\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a})"
                                  R"(\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr const char* word_set = R"(\p{L}\p{N}_)";
constexpr const char* digit_set = R"(\p{Nd})";

std::string word_edge(bool at_edge) {
  const std::string w = "[" + std::string(word_set) + "]";
  const std::string edge = "(?:(?<=" + w + ")(?!" + w + ")|(?<!" + w + ")(?=" + w + "))";
  return at_edge ? edge : "(?!" + edge + ")";
}

const char* set_of(char letter) {
  return letter == 's' ? space_set : letter == 'w' ? word_set : letter == 'd' ? digit_set : nullptr;
}

// One backslash sequence; `in_class`: between [ and ].
std::string escape_in_onig(std::string_view letter, bool in_class) {
  const char c = letter[0];
  if (letter.size() > 1) return std::string(letter);  // an escaped character beyond ASCII
  if (const char* set = set_of(c)) {
    return "[" + std::string(set) + "]";  // nested sets are a union inside a class
  }
  const char small = static_cast<char>(c | 0x20);
  if (c >= 'A' && c <= 'Z' && set_of(small) != nullptr) {
    return "[^" + std::string(set_of(small)) + "]";
  }
  if (!in_class && (c == 'b' || c == 'B')) return word_edge(c == 'b');
  if (!in_class && c == 'Z') return "\\z";
  if (c == 'b') return "\\x08";
  constexpr std::string_view same = "nrtfvaA0xu";
  const bool letter_or_digit = (small >= 'a' && small <= 'z') || is_digit(c);
  if (!letter_or_digit || same.find(c) != std::string_view::npos || (is_digit(c) && !in_class)) {
    return "\\" + std::string(1, c);
  }
  throw usage_error("the pattern has a bad escape \\" + std::string(1, c));
}

// The pattern in Oniguruma's syntax.
std::string in_onig(std::string_view python) {
  std::string out;
  bool in_class = false, first = false;
  for (std::size_t at = 0; at < python.size();) {
    const std::size_t bytes = decode_utf8(python, at).bytes;
    const char c = python[at];
    if (c == '\\' && at + 1 < python.size()) {
      const std::size_t next = decode_utf8(python, at + 1).bytes;
      out += escape_in_onig(python.substr(at + 1, next), in_class);
      at += 1 + next;
      first = false;
      continue;
    }
    at += bytes;
    if (in_class) {
      if (c == ']' && !first) {
        in_class = false;
        out += c;
      } else if (c == '[' || c == '&' || (c == ']' && first)) {
        out += std::string("\\") + c;
      } else {
        out += python.substr(at - bytes, bytes);
      }
      first = first && c == '^' && out.ends_with("[^");
    } else if (c == '[') {
      in_class = first = true;
      out += c;
    } else {
      out += python.substr(at - bytes, bytes);
    }
  }
  return out;
}

// Python's syntax and, for what in_onig() writes, properties and sets inside sets.
OnigSyntaxType* syntax() {
  static OnigSyntaxType s = [] {
    OnigSyntaxType python = OnigSyntaxPython;
    python.op |= ONIG_SYN_OP_ESC_X_BRACE_HEX8;
    python.op2 |= ONIG_SYN_OP2_ESC_P_BRACE_CHAR_PROPERTY | ONIG_SYN_OP2_CCLASS_SET_OP;
    return python;
  }();
  return &s;
}

std::optional<match> run(void* engine, std::string_view text, std::size_t from, bool anchored) {
  const auto region = found_in(engine, text, from, anchored, "a scorer's");
  if (!region) return {};
  match m;
  m.text = text;
  for (int i = 0; i < region->num_regs; ++i) {
    match::span span;
    if (region->beg[i] >= 0) {
      span = {static_cast<std::size_t>(region->beg[i]), static_cast<std::size_t>(region->end[i])};
    }
    m.groups.push_back(span);
  }
  return m;
}

}  // namespace

pattern::pattern(const std::string& python, unsigned flags) {
  OnigOptionType options = ONIG_OPTION_CAPTURE_GROUP;
  if ((flags & ignore_case) != 0) options |= ONIG_OPTION_IGNORECASE;
  if ((flags & dot_all) != 0) options |= ONIG_OPTION_MULTILINE;
  options |= (flags & multi_line) != 0 ? ONIG_OPTION_NEGATE_SINGLELINE : ONIG_OPTION_SINGLELINE;
  compiled_ = compiled(in_onig(python), syntax(), options,
                       ONIGENC_CASE_FOLD_MIN & ~INTERNAL_ONIGENC_CASE_FOLD_MULTI_CHAR,
                       [&](const std::string& why) {
                         throw usage_error("the pattern " + in_ticks(python) + " " + why);
                       });
}

std::optional<match> pattern::search(std::string_view text, std::size_t from) const {
  return run(compiled_.get(), text, from, false);
}

std::optional<match> pattern::match_at_start(std::string_view text) const {
  return run(compiled_.get(), text, 0, true);
}

std::vector<match> pattern::find_all(std::string_view text) const {
  // As Python since 3.7: an empty match may follow a match, but not at the place where an empty
  // one was found, and a non-empty one may begin where an empty one stood.
  std::vector<match> all;
  std::size_t at = 0;
  bool after_empty = false;  // an empty match was found at `at`
  while (at <= text.size()) {
    auto found = search(text, at);
    if (found && after_empty && found->begin() == at && found->end() == at) {
      const std::size_t step = at < text.size() ? decode_utf8(text, at).bytes : 1;
      if (at + step > text.size()) break;
      at += step;
      after_empty = false;
      continue;
    }
    if (!found) break;
    after_empty = found->begin() == found->end();
    at = found->end();
    all.push_back(std::move(*found));
  }
  return all;
}

std::string pattern::sub(std::string_view text, const std::function<std::string(const match&)>& by,
                         std::size_t count) const {
  std::string out;
  std::size_t at = 0, done = 0;
  for (const match& m : find_all(text)) {
    if (count > 0 && done == count) break;
    out += text.substr(at, m.begin() - at);
    out += by(m);
    at = m.end();
    ++done;
  }
  out += text.substr(at);
  return out;
}

std::string pattern::sub_text(std::string_view text, std::string_view by) const {
  return sub(text, [by](const match&) { return std::string(by); });
}

std::vector<std::string_view> pattern::split(std::string_view text) const {
  std::vector<std::string_view> parts;
  std::size_t at = 0;
  for (const match& m : find_all(text)) {
    parts.push_back(text.substr(at, m.begin() - at));
    at = m.end();
  }
  parts.push_back(text.substr(at));
  return parts;
}

}  // namespace py
}  // namespace unmask
