// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/ifeval.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "harness/base/python_regex.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/language.h"
#include "harness/workload/scorers/python_random.h"

namespace unmask::scorers {
using py::pattern;
namespace {

decision of(bool kept) {
  return kept ? decision::kept : decision::broken;
}

// The arguments of one instruction; null, zero and empty ones count as missing, as in the harness.
class arguments {
 public:
  explicit arguments(const json_reader& kwargs) : kwargs_(kwargs) {}

  std::optional<std::string> text(const char* key) const {
    if (!kwargs_.given(key)) return {};
    std::string value = kwargs_.text(key);
    if (value.empty()) return {};
    return value;
  }
  std::optional<std::int64_t> number(const char* key) const {
    const std::int64_t value = kwargs_.integer_or(key, -(1LL << 40), 1LL << 40, 0);
    if (value == 0 || value < 0) return {};  // a negative one is drawn at random, too
    return value;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> all;
    if (!kwargs_.given(key)) return all;
    const json_value::array* items = kwargs_.at(key).items();
    if (items == nullptr) kwargs_.fail(key, "must be an array of strings");
    for (const json_value& item : *items) {
      if (item.text() == nullptr) kwargs_.fail(key, "must be an array of strings");
      all.push_back(*item.text());
    }
    return all;
  }
  // Compares by the relation under `key`: "less than", else at least; undecided without one.
  decision compare(const char* key, std::int64_t count,
                   std::optional<std::int64_t> threshold) const {
    const auto relation = text(key);
    if (relation && *relation != "less than" && *relation != "at least") {
      kwargs_.fail(key, "is neither `less than` nor `at least`");
    }
    if (!relation || !threshold) return decision::undecided;
    return of(*relation == "less than" ? count < *threshold : count >= *threshold);
  }
  const json_reader& reader() const { return kwargs_; }

 private:
  const json_reader& kwargs_;
};

using text_view = std::string_view;

std::int64_t count(const std::vector<py::match>& matches) {
  return static_cast<std::int64_t>(matches.size());
}

decision keywords_exist(const arguments& a, text_view response) {
  const auto words = a.texts("keywords");
  if (words.empty()) return decision::undecided;
  return of(std::ranges::all_of(words, [&](const std::string& word) {
    return pattern(word, pattern::ignore_case).search(response).has_value();
  }));
}

decision keyword_frequency(const arguments& a, text_view response) {
  const auto word = a.text("keyword");
  if (!word) return decision::undecided;
  const pattern p(std::string(py::strip(*word)), pattern::ignore_case);
  return a.compare("relation", count(p.find_all(response)), a.number("frequency"));
}

decision forbidden_words(const arguments& a, text_view response) {
  const auto words = a.texts("forbidden_words");
  if (words.empty()) return decision::undecided;
  return of(std::ranges::none_of(words, [&](const std::string& word) {
    std::string bounded = "\\b";
    bounded += word;
    bounded += "\\b";
    return pattern(bounded, pattern::ignore_case).search(response).has_value();
  }));
}

decision one_letter_frequency(const arguments& a, const std::string& lower, char letter) {
  return a.compare("let_relation", std::ranges::count(lower, letter), a.number("let_frequency"));
}

// For a character that is no letter (the data set has "!" and "#") the harness draws a letter. It
// is decided when all letters agree; broken also when the letters drawn by seeds 0 to 4 say so.
decision drawn_letter_frequency(const arguments& a, const std::string& lower) {
  const decision first = one_letter_frequency(a, lower, 'a');
  bool agreed = true;
  for (char letter = 'b'; letter <= 'z'; ++letter) {
    agreed = agreed && one_letter_frequency(a, lower, letter) == first;
  }
  if (agreed) return first;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const auto drawn = python_random(seed).below(52);
    const decision one = one_letter_frequency(a, lower, static_cast<char>('a' + drawn % 26));
    if (one != decision::broken) return decision::undecided;
  }
  return decision::broken;
}

decision letter_frequency(const arguments& a, text_view response) {
  const std::string letter = py::lower(a.text("letter").value_or(""));
  const std::string lower = py::lower(response);
  if (letter.size() != 1 || letter[0] < 'a' || letter[0] > 'z') {
    return drawn_letter_frequency(a, lower);
  }
  return one_letter_frequency(a, lower, letter[0]);
}

decision in_language(text_view response, const std::string& wanted) {
  // Decided where the seeds agree on whether it is this language, whatever else they say it is.
  std::optional<bool> agreed;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const std::string found = detect_language(response, seed);
    if (found.empty()) return decision::kept;  // no features: it counts
    if (agreed && *agreed != (found == wanted)) return decision::undecided;
    agreed = found == wanted;
  }
  return of(*agreed);
}

decision response_language(const arguments& a, text_view response) {
  const auto language = a.text("language");
  return language ? in_language(response, *language) : decision::undecided;
}

decision english_capital(const arguments&, text_view response) {
  return py::is_upper(response) ? in_language(response, "en") : decision::broken;
}

decision english_lowercase(const arguments&, text_view response) {
  return py::is_lower(response) ? in_language(response, "en") : decision::broken;
}

decision needs_sentence_model(const arguments&, text_view) {
  return decision::undecided;
}

decision number_paragraphs(const arguments& a, text_view response) {
  static const pattern divider(R"(\s?\*\*\*\s?)");
  const auto wanted = a.number("num_paragraphs");
  if (!wanted) return decision::undecided;
  const auto parts = divider.split(response);
  auto left = static_cast<std::int64_t>(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!py::strip(parts[i]).empty()) continue;
    if (i != 0 && i + 1 != parts.size()) return decision::broken;
    --left;
  }
  return of(left == *wanted);
}

decision number_words(const arguments& a, text_view response) {
  static const pattern word(R"(\w+)");
  return a.compare("relation", count(word.find_all(response)), a.number("num_words"));
}

// The first word of a paragraph, as the harness cuts it: quotes before it and everything from the
// first punctuation mark on are dropped.
std::string first_word_of(text_view paragraph) {
  const auto words = py::words_of(paragraph);
  const text_view word = py::lstrip(py::lstrip(words.front(), "'"), "\"");
  return py::lower(word.substr(0, word.find_first_of(".,?!'\"")));
}

decision nth_paragraph_first_word(const arguments& a, text_view response) {
  const auto wanted = a.number("num_paragraphs"), nth = a.number("nth_paragraph");
  const auto first = a.text("first_word");
  if (!wanted || !nth || !first || *nth > *wanted) return decision::undecided;
  const auto parts = py::split(response, "\n\n");
  const auto full = std::ranges::count_if(parts, [](text_view p) { return !py::strip(p).empty(); });
  if (*nth > full) return decision::broken;
  const text_view paragraph = py::strip(parts[static_cast<std::size_t>(*nth - 1)]);
  if (paragraph.empty()) return decision::broken;
  return of(full == *wanted && first_word_of(paragraph) == py::lower(*first));
}

decision number_placeholders(const arguments& a, text_view response) {
  static const pattern placeholder(R"(\[.*?\])");
  const auto wanted = a.number("num_placeholders");
  if (!wanted) return decision::undecided;
  return of(count(placeholder.find_all(response)) >= *wanted);
}

decision postscript(const arguments& a, text_view response) {
  const auto given = a.text("postscript_marker");
  if (!given) return decision::undecided;
  const std::string marker(py::strip(*given));
  std::string form = R"(\s*)" + py::lower(marker) + ".*$";
  if (marker == "P.P.S") form = R"(\s*p\.\s?p\.\s?s.*$)";
  if (marker == "P.S.") form = R"(\s*p\.\s?s\..*$)";
  return of(pattern(form, pattern::multi_line).search(py::lower(response)).has_value());
}

decision number_bullets(const arguments& a, text_view response) {
  static const pattern star(R"(^\s*\*[^\*].*$)", pattern::multi_line);
  static const pattern dash(R"(^\s*-.*$)", pattern::multi_line);
  const auto wanted = a.number("num_bullets");
  if (!wanted) return decision::undecided;
  return of(count(star.find_all(response)) + count(dash.find_all(response)) == *wanted);
}

decision constrained_response(const arguments&, text_view response) {
  for (const char* answer : {"My answer is yes.", "My answer is no.", "My answer is maybe."}) {
    if (py::contains(py::strip(response), answer)) return decision::kept;
  }
  return decision::broken;
}

decision highlighted_sections(const arguments& a, text_view response) {
  static const pattern single(R"(\*[^\n\*]*\*)"), twice(R"(\*\*[^\n\*]*\*\*)");
  const auto wanted = a.number("num_highlights");
  if (!wanted) return decision::undecided;
  const auto filled = [](text_view text) { return !py::strip(text).empty(); };
  std::int64_t n = 0;
  for (const py::match& m : single.find_all(response)) n += filled(py::strip(m[0], "*")) ? 1 : 0;
  for (const py::match& m : twice.find_all(response)) {
    n += filled(m[0].substr(2, m[0].size() - 4)) ? 1 : 0;
  }
  return of(n >= *wanted);
}

decision multiple_sections(const arguments& a, text_view response) {
  const auto name = a.text("section_spliter");
  const auto wanted = a.number("num_sections");
  if (!name || !wanted) return decision::undecided;
  const pattern head(R"(\s?)" + std::string(py::strip(*name)) + R"(\s?\d+\s?)");
  return of(count(head.find_all(response)) >= *wanted);
}

decision json_format(const arguments&, text_view response) {
  text_view text = py::strip(response);
  for (const text_view fence : {"```json", "```Json", "```JSON", "```"}) {
    if (text.starts_with(fence)) text.remove_prefix(fence.size());
  }
  if (text.ends_with("```")) text.remove_suffix(3);
  return of(is_python_json(py::strip(text)));
}

decision title(const arguments&, text_view response) {
  static const pattern marked(R"(<<[^\n]+>>)");
  return of(std::ranges::any_of(marked.find_all(response), [](const py::match& m) {
    return !py::strip(py::rstrip(py::lstrip(m[0], "<"), ">")).empty();
  }));
}

decision two_responses(const arguments&, text_view response) {
  const auto parts = py::split(response, "******");
  std::vector<text_view> full;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const text_view part = py::strip(parts[i]);
    if (!part.empty()) {
      full.push_back(part);
    } else if (i != 0 && i + 1 != parts.size()) {
      return decision::broken;
    }
  }
  return of(full.size() == 2 && full[0] != full[1]);
}

decision repeat_prompt(const arguments& a, text_view response) {
  const auto prompt = a.text("prompt_to_repeat");
  if (!prompt) a.reader().fail("prompt_to_repeat", "is missing");
  return of(py::lower(py::strip(response)).starts_with(py::lower(py::strip(*prompt))));
}

decision end_checker(const arguments& a, text_view response) {
  const auto phrase = a.text("end_phrase");
  if (!phrase) return decision::undecided;
  const std::string end =
      py::lower(py::strip(response).empty() ? text_view{} : py::strip(py::strip(response), "\""));
  return of(end.ends_with(py::lower(py::strip(*phrase))));
}

decision no_comma(const arguments&, text_view response) {
  return of(!py::contains(response, ","));
}

decision quotation(const arguments&, text_view response) {
  const text_view text = py::strip(response);
  return of(text.size() > 1 && text.front() == '"' && text.back() == '"');
}

using instruction = decision (*)(const arguments&, text_view);

const std::map<std::string, instruction, std::less<>>& instructions() {
  static const std::map<std::string, instruction, std::less<>> all = {
      {"keywords:existence", keywords_exist},
      {"keywords:frequency", keyword_frequency},
      {"keywords:forbidden_words", forbidden_words},
      {"keywords:letter_frequency", letter_frequency},
      {"language:response_language", response_language},
      {"length_constraints:number_sentences", needs_sentence_model},
      {"length_constraints:number_paragraphs", number_paragraphs},
      {"length_constraints:number_words", number_words},
      {"length_constraints:nth_paragraph_first_word", nth_paragraph_first_word},
      {"detectable_content:number_placeholders", number_placeholders},
      {"detectable_content:postscript", postscript},
      {"detectable_format:number_bullet_lists", number_bullets},
      {"detectable_format:constrained_response", constrained_response},
      {"detectable_format:number_highlighted_sections", highlighted_sections},
      {"detectable_format:multiple_sections", multiple_sections},
      {"detectable_format:json_format", json_format},
      {"detectable_format:title", title},
      {"combination:two_responses", two_responses},
      {"combination:repeat_prompt", repeat_prompt},
      {"startend:end_checker", end_checker},
      {"startend:quotation", quotation},
      {"change_case:capital_word_frequency", needs_sentence_model},
      {"change_case:english_capital", english_capital},
      {"change_case:english_lowercase", english_lowercase},
      {"punctuation:no_comma", no_comma}};
  return all;
}

// The response and what is left without first line, last line or both; then all without asterisks.
std::array<std::string, 8> variants_of(text_view response) {
  const std::size_t first = response.find('\n'), last = response.rfind('\n');
  const bool lines = first != text_view::npos;
  const text_view after = lines ? response.substr(first + 1) : text_view{};
  const text_view before = lines ? response.substr(0, last) : text_view{};
  const text_view inner =
      lines && last > first ? response.substr(first + 1, last - first - 1) : text_view{};
  std::array<std::string, 8> all = {std::string(response), std::string(py::strip(after)),
                                    std::string(py::strip(before)), std::string(py::strip(inner))};
  for (std::size_t i = 0; i < 4; ++i) all[i + 4] = py::replace_all(all[i], "*", "");
  return all;
}

decision strictly(instruction check, const arguments& a, text_view response) {
  return py::strip(response).empty() ? decision::broken : check(a, response);
}

decision loosely(instruction check, const arguments& a,
                 const std::array<std::string, 8>& variants) {
  decision best = decision::broken;
  for (const std::string& variant : variants) {
    const decision one = strictly(check, a, variant);
    if (one == decision::kept) return one;
    if (one == decision::undecided) best = one;
  }
  return best;
}

}  // namespace

decision ifeval_verdict::all_of(const std::vector<decision>& instructions) {
  if (std::ranges::find(instructions, decision::broken) != instructions.end()) {
    return decision::broken;
  }
  const bool open = std::ranges::find(instructions, decision::undecided) != instructions.end();
  return open ? decision::undecided : decision::kept;
}

ifeval_verdict score_ifeval(const json_reader& check, std::string_view response) {
  const json_value::array* ids = check.at("instruction_id_list").items();
  const json_value::array* kwargs = check.at("kwargs").items();
  if (ids == nullptr || kwargs == nullptr || ids->size() != kwargs->size()) {
    check.fail("kwargs", "must be an array as long as `instruction_id_list`");
  }
  const std::array<std::string, 8> variants = variants_of(response);
  ifeval_verdict verdict;
  for (std::size_t i = 0; i < ids->size(); ++i) {
    const std::string at = "kwargs[" + std::to_string(i) + "]";
    const auto found = instructions().find((*ids)[i].text() ? *(*ids)[i].text() : "");
    if (found == instructions().end()) {
      check.fail("instruction_id_list", "names an instruction that does not exist");
    }
    if ((*kwargs)[i].members() == nullptr) check.fail(at, "must be an object");
    const json_reader reader((*kwargs)[i], check.file(), check.name_of(at) + ".");
    const arguments a(reader);
    verdict.strict.push_back(strictly(found->second, a, response));
    verdict.loose.push_back(loosely(found->second, a, variants));
  }
  return verdict;
}

}  // namespace unmask::scorers
