// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorer.h"

#include <algorithm>
#include <limits>

#include "harness/base/json.h"
#include "harness/base/nearest.h"
#include "harness/base/python_text.h"
#include "harness/workload/constraints.h"
#include "harness/workload/list_language.h"
#include "harness/workload/scorers/item_scores.h"

namespace unmask {

using namespace py;
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
  if (parse_int(number) == wanted) return "";  // as text: a model may write any number of digits
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

score score_none(const task_item&, const json_reader&, std::string_view) {
  return {false, 0.0, false, "not scored"};
}

struct named_scorer {
  const char* name;
  scorer_function function;
};
constexpr named_scorer own_scorers[] = {{"final_number", judged<final_number_mismatch>},
                                        {"list_program", judged<list_program_mismatch>},
                                        {"constraints", judged<broken_constraint>},
                                        {"exact", score_exact},
                                        {"contains", score_contains},
                                        {"none", score_none}};

scorer_function find_scorer(std::string_view name) {
  for (const named_scorer& s : own_scorers) {
    if (name == s.name) return s.function;
  }
  for (const scorers::named_item_score& s : scorers::item_scores()) {
    if (name == s.name) return s.function;
  }
  return nullptr;
}

}  // namespace

const std::vector<std::string>& scorer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const named_scorer& s : own_scorers) list.emplace_back(s.name);
    for (const scorers::named_item_score& s : scorers::item_scores()) list.emplace_back(s.name);
    return list;
  }();
  return names;
}

void require_scorer(const std::string& name, const std::string& where) {
  find_known("scorer", name, scorer_names(), where);
}

score score_answer(const task_item& item, const std::string& output) {
  require_scorer(item.scorer, "task " + item.id);
  const std::string where = "task " + item.id + ", check";
  const json_value check = parse_json(item.check, where);
  const json_reader reader(check, where);
  return find_scorer(item.scorer)(item, reader, output);
}

}  // namespace unmask
