// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorer.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"
#include "harness/workload/benchmark_list.h"
#include "harness/workload/constraints.h"
#include "harness/workload/list_language.h"

namespace unmask {

namespace {

using scorer_function = score (*)(const task_item&, const json_reader& check, std::string_view);

// An empty reason means that the output is right.
score all_or_nothing(std::string reason) {
  const bool right = reason.empty();
  return {true, right ? 1.0 : 0.0, right, std::move(reason)};
}

// The longest prefix that is an optional minus and digits, "" without digits.
std::string leading_integer(std::string_view text) {
  std::size_t end = text.starts_with('-') ? 1 : 0;
  const std::size_t digits = end;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end > digits ? std::string(text.substr(0, end)) : "";
}

// An integer of any number of digits without leading zeros; the minus of 0 is none.
std::string canonical(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  digits.remove_prefix(std::min(digits.find_first_not_of("-0"), digits.size() - 1));
  return negative && digits != "0" ? "-" + std::string(digits) : std::string(digits);
}

// The integer after the last `####` of the output against check.value. Only the number's beginning
// counts: what follows its digits is not looked at.
std::string final_number_mismatch(const json_reader& check, std::string_view output) {
  using limits = std::numeric_limits<std::int64_t>;
  const std::string wanted = std::to_string(check.integer("value", limits::min(), limits::max()));
  const std::size_t mark = output.rfind("####");
  if (mark == std::string_view::npos) return "there is no #### before the answer";
  const std::string_view tail = strip(output.substr(mark + 4));
  const std::string number = leading_integer(tail);
  if (number.empty()) return "no number follows ####";
  if (canonical(number) == wanted) return "";  // as text: a model may write any number of digits
  return "the answer is " + in_ticks(number) + ", expected " + wanted;
}

// The score of a check that names what is wrong with an output.
template <std::string (*mismatch)(const json_reader&, std::string_view)>
score judged(const task_item&, const json_reader& check, std::string_view output) {
  return all_or_nothing(mismatch(check, output));
}

score score_exact(const task_item& item, const json_reader&, std::string_view output) {
  const bool right = strip(output) == strip(item.answer);
  return all_or_nothing(right ? "" : "expected " + in_ticks(strip(item.answer)));
}

score score_contains(const task_item&, const json_reader& check, std::string_view output) {
  const std::string wanted = check.text("text");
  for (std::size_t at = output.find(wanted); at != std::string_view::npos;
       at = output.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    const bool longer_before = at > 0 && is_digit(output[at - 1]);
    const bool longer_after = end < output.size() && is_digit(output[end]);
    if (!longer_before && !longer_after) return all_or_nothing("");
  }
  return all_or_nothing(in_ticks(wanted) + " does not occur");
}

// [a-z0-9]+ of the lower-cased text.
std::vector<std::string> plain_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : lower(text)) {
    const bool letter = (c >= 'a' && c <= 'z') || is_digit(c);
    if (letter && !inside) words.emplace_back();
    if (letter) words.back() += c;
    inside = letter;
  }
  return words;
}

std::size_t longest_common_subsequence(const std::vector<std::string>& a,
                                       const std::vector<std::string>& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (const std::string& word : a) {
    std::size_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

score score_rouge_l(const task_item& item, const json_reader&, std::string_view output) {
  const std::vector<std::string> words = plain_words(output), wanted = plain_words(item.answer);
  const auto common = static_cast<double>(longest_common_subsequence(words, wanted));
  const double value =
      common > 0 ? 2 * common / static_cast<double>(words.size() + wanted.size()) : 0;
  const bool exact = value == 1;
  return {true, value, exact, exact ? "" : "words differ from the reference"};
}

score score_none(const task_item&, const json_reader&, std::string_view) {
  return {false, 0.0, false, "not scored"};
}

struct named_scorer {
  std::string_view name;
  scorer_function function;
};
constexpr named_scorer own_scorers[] = {{"final_number", judged<final_number_mismatch>},
                                        {"list_program", judged<list_program_mismatch>},
                                        {"constraints", judged<broken_constraint>},
                                        {"exact", score_exact},
                                        {"contains", score_contains},
                                        {"rouge_l", score_rouge_l},
                                        {"none", score_none}};

const named_scorer* find_own(std::string_view name) {
  const auto* const found = std::ranges::find(own_scorers, name, &named_scorer::name);
  return found == std::end(own_scorers) ? nullptr : found;
}

}  // namespace

measure repeated_sequences(const std::string& name, std::string_view text) {
  const std::size_t length = 4;
  const std::vector<std::string> words = plain_words(text);
  std::set<std::vector<std::string>> seen;
  measure repeats{name, 0, 0};
  for (std::size_t i = 0; i + length <= words.size(); ++i) {
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    repeats.sum += seen.emplace(at, at + length).second ? 0 : 1;
    ++repeats.of;
  }
  return repeats;
}

const std::vector<std::string>& scorer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const named_scorer& s : own_scorers) list.emplace_back(s.name);
    for (const benchmark& b : benchmarks()) {
      if (std::ranges::find(list, b.scorer) == list.end()) list.push_back(b.scorer);
    }
    return list;
  }();
  return names;
}

bool is_own_scorer(const std::string& name) {
  return find_own(name) != nullptr;
}

void require_scorer(const std::string& name, const std::string& where) {
  if (!is_own_scorer(name)) find_known("scorer", name, scorer_names(), where);
}

score score_answer(const task_item& item, const std::string& output) {
  require_scorer(item.scorer, "task " + item.id);
  const named_scorer* own = find_own(item.scorer);
  if (own == nullptr) {
    throw usage_error("task " + item.id + ": `" + item.scorer + "` is no scorer of this program");
  }
  const std::string where = "task " + item.id + ", check";
  const json_value check = parse_json(item.check, where);
  const json_reader reader(check, where);
  return own->function(item, reader, output);
}

}  // namespace unmask
