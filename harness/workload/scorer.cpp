// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorer.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"
#include "harness/workload/constraints.h"
#include "harness/workload/list_language.h"
#include "harness/workload/longbench.h"
#include "harness/workload/math_answer.h"
#include "harness/workload/number_answer.h"
#include "harness/workload/rouge.h"

namespace unmask {
using namespace py;
namespace {

using scorer_function = score (*)(const task_item&, const json_reader& check, std::string_view);

// An empty reason means that the output is right.
score all_or_nothing(std::string reason) {
  const bool right = reason.empty();
  return {true, right ? 1.0 : 0.0, right, std::move(reason)};
}

score score_number(const task_item&, const json_reader& check, std::string_view output) {
  return all_or_nothing(final_number_mismatch(check, output));
}

score score_program(const task_item&, const json_reader& check, std::string_view output) {
  return all_or_nothing(list_program_mismatch(check, output));
}

score score_constraints(const task_item&, const json_reader& check, std::string_view output) {
  return all_or_nothing(broken_constraint(check, output));
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

score partial(double value, const char* reason) {
  return {true, value, value == 1.0, value == 1.0 ? "" : reason};
}

std::string_view looked_at(const json_reader& check, std::string_view output) {
  return check.flag_or("first_line", false) ? first_line(output) : output;
}

std::vector<std::string> texts_of(const json_reader& check, const char* key) {
  std::vector<std::string> texts;
  const json_value::array* items = check.at(key).items();
  if (items == nullptr) check.fail(key, "must be an array of strings");
  for (const json_value& item : *items) {
    if (item.text() == nullptr) check.fail(key, "must be an array of strings");
    texts.push_back(*item.text());
  }
  return texts;
}

// The best over the references.
template <class Metric>
double best(const json_reader& check, std::string_view output, Metric metric) {
  double value = 0;
  for (const std::string& reference : texts_of(check, "answers")) {
    value = std::max(value, metric(looked_at(check, output), reference));
  }
  return value;
}

score score_rouge(const task_item& item, const json_reader& check, std::string_view output) {
  return partial(rouge_l(looked_at(check, output), item.answer), "words differ from the reference");
}

score score_qa_f1(const task_item&, const json_reader& check, std::string_view output) {
  return partial(best(check, output, qa_f1), "words differ from every reference");
}

score score_classification(const task_item&, const json_reader& check, std::string_view output) {
  const std::vector<std::string> classes = texts_of(check, "all_classes");
  const auto metric = [&](std::string_view text, std::string_view reference) {
    return class_score(text, reference, classes);
  };
  return partial(best(check, output, metric), "not the class of the reference alone");
}

score score_code(const task_item&, const json_reader& check, std::string_view output) {
  return partial(best(check, output, code_similarity), "the line differs from every reference");
}

score score_share_of_number(const task_item&, const json_reader& check, std::string_view output) {
  return partial(best(check, output, share_of_number), "not the number of the reference alone");
}

score score_boxed(const task_item&, const json_reader& check, std::string_view output) {
  return all_or_nothing(boxed_mismatch(check.text("value"), output));
}

score score_none(const task_item&, const json_reader&, std::string_view) {
  return {false, 0.0, false, "not scored"};
}

struct named_scorer {
  const char* name;
  scorer_function function;
};
constexpr named_scorer scorers[] = {{"final_number", score_number},
                                    {"list_program", score_program},
                                    {"constraints", score_constraints},
                                    {"exact", score_exact},
                                    {"contains", score_contains},
                                    {"rouge_l", score_rouge},
                                    {"boxed", score_boxed},
                                    {"qa_f1", score_qa_f1},
                                    {"classification", score_classification},
                                    {"code_similarity", score_code},
                                    {"share_of_number", score_share_of_number},
                                    {"none", score_none}};

}  // namespace

const std::vector<std::string>& scorer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const named_scorer& s : scorers) list.emplace_back(s.name);
    return list;
  }();
  return names;
}

void require_scorer(const std::string& name, const std::string& where) {
  const auto& names = scorer_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw usage_error(where + ": there is no scorer " + in_ticks(name) + "; did you mean " +
                    nearest_list(name, names, 1) + "?");
}

score score_answer(const task_item& item, const std::string& output) {
  require_scorer(item.scorer, "task " + item.id);
  const std::string where = "task " + item.id + ", check";
  const json_value check = parse_json(item.check, where);
  const json_reader reader(check, where);
  const auto* found = std::find_if(std::begin(scorers), std::end(scorers),
                                   [&](const named_scorer& s) { return item.scorer == s.name; });
  return found->function(item, reader, output);
}

}  // namespace unmask
