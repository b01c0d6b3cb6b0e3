// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/base/regex.h"

#include "harness/base/unicode.h"
#include "harness/model/tokenizer_parts.h"
#include "kernels/random.h"
#include "tests/harness/model/support.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <nlohmann/json.hpp>

namespace unmask {
namespace {

using spans = std::vector<std::pair<std::size_t, std::size_t>>;

spans matches(const std::string& pattern, const std::string& text) {
  spans found;
  regex(pattern).for_each_match(text,
                                [&](std::size_t b, std::size_t e) { found.emplace_back(b, e); });
  return found;
}

TEST(regex, matches_left_to_right) {
  EXPECT_EQ(matches("a+", "aab ab"), (spans{{0, 2}, {4, 5}}));
  EXPECT_EQ(matches("\\p{L}", "é1日"), (spans{{0, 2}, {3, 6}}));
  EXPECT_EQ(matches("x", ""), spans{});
  // As Rust's and Python's find_iter: no empty match right after a match.
  EXPECT_EQ(matches("x*", "axxb"), (spans{{0, 0}, {1, 3}, {4, 4}}));
}

// tokenizers.pre_tokenizers.Split(Regex("[[:punct:]]"), "isolated") of tokenizers 0.23.3.
TEST(regex, punctuation_holds_the_symbols_of_ascii) {
  const std::string text = "a$b+c<d=e>f^g|h~i`j-k";
  spans symbols, letters;
  for (std::size_t i = 0; i < text.size(); ++i)
    (i % 2 == 1 ? symbols : letters).emplace_back(i, i + 1);
  EXPECT_EQ(matches("[[:punct:]]", text), symbols);
  EXPECT_EQ(matches("[x[:punct:]]", text), symbols);
  EXPECT_EQ(matches("[[:^punct:]]+", text), letters);
  EXPECT_EQ(matches("[^[:punct:]]+", text), letters);
  EXPECT_EQ(matches("\\[[:punct:]x]", "[p]"), spans{});  // an escaped bracket, then a plain class
  EXPECT_EQ(matches("[\\[[:punct:]]", "[p!"), (spans{{0, 1}, {2, 3}}));
}

TEST(regex, bad_patterns_are_errors) {
  for (const char* pattern : {"(", "[z-a]", "\\p{Nonsense}", "a{2", "(?<n"}) {
    if (pattern == std::string("a{2")) continue;  // a literal in this syntax
    test::expect_environment_error([&] { regex r(pattern); }, {"compile"});
  }
  test::expect_environment_error([] { regex r(std::string(100'000, 'a')); }, {"longer"});
}

TEST(regex, runaway_searches_end) {
  const regex r("(?:a|aa)+$");
  test::expect_environment_error(
      [&] { r.for_each_match(std::string(60, 'a') + "b", [](std::size_t, std::size_t) {}); },
      {"pattern failed"});
}

TEST(regex, escapes) {
  const std::string odd = "a.b*c[d](e)|f\\g {h}^$+?-#&~/é";
  EXPECT_EQ(matches(regex_escape(odd), "x" + odd), (spans{{1, 1 + odd.size()}}));
}

TEST(unicode, white_space_and_repair) {
  EXPECT_EQ(leading_space(" \t\u3000x "), 5U);
  EXPECT_EQ(trailing_space("x\u00a0\n"), 3U);
  EXPECT_EQ(leading_space("\u200bx"), 0U);  // zero-width space is not white space
  EXPECT_EQ(leading_space(""), 0U);
  EXPECT_EQ(trailing_space("   "), 3U);
  EXPECT_EQ(repair_utf8("a\xC3(b"), "a\xEF\xBF\xBD(b");
  EXPECT_EQ(normalize_nfc("e\u0301"), "\u00e9");
}

// fixtures/nfc_cases.json: [text, NFC of tokenizers 0.23.3], with marks that are newer than its tables.
TEST(unicode, normalises_as_the_tokenizers_library_does) {
  const auto cases = nlohmann::json::parse(test::text_of(test::fixtures() / "nfc_cases.json"));
  ASSERT_EQ(cases.size(), 400U);
  for (const auto& item : cases) {
    EXPECT_EQ(normalize_nfc(item[0].get<std::string>()), item[1].get<std::string>()) << item;
  }
}

spans pcre2_matches(const char* pattern, const std::string& text) {
  int code = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                                       PCRE2_UTF | PCRE2_UCP, &code, &offset, nullptr);
  pcre2_match_data* data = pcre2_match_data_create_from_pattern(compiled, nullptr);
  spans found;
  for (std::size_t at = 0; at < text.size();) {
    const int n = pcre2_match(compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                              PCRE2_NO_UTF_CHECK, data, nullptr);
    if (n < 0) break;
    const PCRE2_SIZE* v = pcre2_get_ovector_pointer(data);
    found.emplace_back(v[0], v[1]);
    at = v[1];
  }
  pcre2_match_data_free(data);
  pcre2_code_free(compiled);
  return found;
}

std::string random_text(std::uint64_t seed) {
  static const std::vector<std::string> alphabet = [] {
    std::vector<std::string> all = {
        "'s",     "'RE",    "\r\n",   "\n\n",   "  ",     "   ", "é", "ß", "日本",
        "中",     "한",     "д",      "ع",      "٣",      "½",   "Ⅷ", "😀", "👍🏽",
        "\u0301", "\u00a0", "\u3000", "\u200b", "\u2028", "ǅ",   "ﬁ"};
    for (char c = 32; c < 127; ++c) all.emplace_back(1, c);
    for (int i = 0; i < 20; ++i) all.emplace_back(" ");
    for (const char* c : {"\t", "\n", "\r", "a", "e", "t", "1"}) all.emplace_back(c);
    return all;
  }();
  std::string text;
  const auto length = static_cast<std::uint64_t>(uniform_open(seed, 0) * 80);
  for (std::uint64_t i = 0; i < length; ++i) {
    const double u = uniform_open(seed, i + 1);
    text += alphabet[static_cast<std::size_t>(u * static_cast<double>(alphabet.size()))];
  }
  return text;
}

TEST(regex, oniguruma_equals_pcre2_on_the_published_patterns) {
  for (const char* pattern : {qwen2_pattern, gpt2_pattern}) {
    const regex r(pattern);
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
      const std::string text = random_text(seed);
      spans found;
      r.for_each_match(text, [&](std::size_t b, std::size_t e) { found.emplace_back(b, e); });
      ASSERT_EQ(found, pcre2_matches(pattern, text)) << text;
    }
  }
}

}  // namespace
}  // namespace unmask
