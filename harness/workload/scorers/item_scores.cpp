// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/item_scores.h"

#include <algorithm>

#include "harness/base/python_text.h"
#include "harness/workload/scorers/choice.h"
#include "harness/workload/scorers/gsm8k.h"
#include "harness/workload/scorers/ifeval.h"
#include "harness/workload/scorers/longbench.h"
#include "harness/workload/scorers/math_minerva.h"
#include "harness/workload/scorers/math_text.h"
#include "harness/workload/scorers/math_verify.h"
#include "harness/workload/scorers/program_scores.h"
#include "harness/workload/scorers/rouge.h"

namespace unmask::scorers {
namespace {

score right_or_wrong(const extraction& e) {
  score s{true, e.right ? 1.0 : 0.0, e.right,
          e.right ? "" : "the answer is " + py::in_ticks(e.text)};
  s.extracted = e.text;
  return s;
}

score partial(double value, const char* reason) {
  return {true, value, value == 1.0, value == 1.0 ? "" : reason};
}

score decided(decision d, std::string extracted) {
  score s = right_or_wrong({std::move(extracted), d == decision::kept});
  if (d != decision::undecided) return s;
  s.scored = false;
  s.undecided = true;
  s.note = "undecided: the comparison of " + py::in_ticks(s.extracted);
  return s;
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

filtered_answer exact_match(const char* filter, const extraction& e) {
  return {filter, e.text, {{"exact_match", e.right ? "1.0" : "0.0"}}};
}

score with_filters(const extraction& strict, const extraction& flexible) {
  score s = right_or_wrong(strict);
  s.measures = {{"strict-match", strict.right ? 1.0 : 0.0},
                {"flexible-extract", flexible.right ? 1.0 : 0.0}};
  s.filters = {exact_match("strict-match", strict), exact_match("flexible-extract", flexible)};
  return s;
}

score gsm8k(const task_item&, const json_reader& check, std::string_view output) {
  const std::string target = check.text("target");
  return with_filters(gsm8k_strict(output, target), gsm8k_flexible(output, target));
}

score gsm8k_cot(const task_item&, const json_reader& check, std::string_view output) {
  const std::string target = check.text("target");
  return with_filters(gsm8k_cot_strict(output, target), gsm8k_flexible(output, target));
}

score gsm8k_v1(const task_item&, const json_reader& check, std::string_view output) {
  return right_or_wrong(gsm8k_opencompass(output, gsm8k_reference(check.text("target"))));
}

score gsm8k_v2(const task_item&, const json_reader& check, std::string_view output) {
  const std::string answer = math_opencompass_answer(output, 2);
  const std::string wanted = gsm8k_reference(check.text("target"));
  return right_or_wrong({answer, math_opencompass_equal(answer, wanted, 2)});
}

score minerva(const task_item&, const json_reader& check, std::string_view output) {
  const std::string answer = minerva_normal(minerva_answer(output));
  score s = decided(minerva_equal(answer, minerva_normal(check.text("answer"))), answer);
  s.filters = {{"none", std::string(output), {}}};  // lm-eval extracts while it compares
  if (!s.undecided) s.filters[0].metrics = {{"exact_match", s.exact ? "1" : "0"}};
  return s;
}

template <int version>
score opencompass_math(const task_item&, const json_reader& check, std::string_view output) {
  const std::string answer = math_opencompass_answer(output, version);
  return right_or_wrong({answer, math_opencompass_equal(answer, check.text("answer"), version)});
}

score verified(const task_item&, const json_reader& check, std::string_view output) {
  const math_verdict v = math_verify_opencompass(output, check.text("answer"));
  return decided(v.right, v.extracted);
}

score letter(const json_reader& check, const std::string& found) {
  return right_or_wrong({found, found == check.text("answer")});
}

score capital(const task_item&, const json_reader& check, std::string_view output) {
  return letter(check, first_capital(output));
}

score option(const task_item&, const json_reader& check, std::string_view output) {
  return letter(check, first_option(output, check.text("options")));
}

score mmlu(const task_item&, const json_reader& check, std::string_view output) {
  const extraction e = mmlu_generative(output, check.text("answer"));
  score s = right_or_wrong(e);
  s.filters = {exact_match("get_response", e)};
  return s;
}

measure level(const char* name, const std::vector<decision>& instructions) {
  const auto kept = std::ranges::count(instructions, decision::kept);
  return {name, static_cast<double>(kept), static_cast<double>(instructions.size())};
}

// [true, false, ...]
std::string verdicts(const std::vector<decision>& instructions) {
  std::string list;
  for (const decision d : instructions) {
    list += (list.empty() ? "" : ", ") + std::string(d == decision::kept ? "true" : "false");
  }
  return "[" + list + "]";
}

const char* all_kept(const std::vector<decision>& instructions) {
  return ifeval_verdict::all_of(instructions) == decision::kept ? "true" : "false";
}

measure prompt_level(const char* name, const std::vector<decision>& instructions) {
  return {name, ifeval_verdict::all_of(instructions) == decision::kept ? 1.0 : 0.0};
}

score instructions(const task_item&, const json_reader& check, std::string_view output) {
  const ifeval_verdict v = score_ifeval(check, output);
  const auto open = [](const std::vector<decision>& all) {
    return std::ranges::find(all, decision::undecided) != all.end();
  };
  score s;
  s.undecided = open(v.strict) || open(v.loose);
  s.filters = {{"none", std::string(output), {}}};
  if (s.undecided) {
    s.note = "undecided: an instruction that needs a sentence model or a random draw";
    return s;
  }
  const measure all = level("inst_strict", v.strict);
  const measure prompt = prompt_level("prompt_strict", v.strict);
  const std::vector<filtered_answer> filters = {{"none",
                                                 std::string(output),
                                                 {{"prompt_level_strict_acc", all_kept(v.strict)},
                                                  {"inst_level_strict_acc", verdicts(v.strict)},
                                                  {"prompt_level_loose_acc", all_kept(v.loose)},
                                                  {"inst_level_loose_acc", verdicts(v.loose)}}}};
  s = partial((prompt.sum + all.sum / std::max(all.of, 1.0)) / 2, "breaks an instruction");
  s.measures = {prompt, all, prompt_level("prompt_loose", v.loose), level("inst_loose", v.loose)};
  s.filters = filters;
  return s;
}

score longbench(const task_item&, const json_reader& check, std::string_view output) {
  const auto classes =
      check.given("all_classes") ? texts_of(check, "all_classes") : std::vector<std::string>{};
  const std::string task = check.text("task");
  const longbench_task* known = find_longbench_task(task);
  if (known == nullptr) check.fail("task", "is no task of LongBench");
  if (classes.empty() && std::string_view(known->metric) == "classification") {
    check.fail("all_classes", "is missing");
  }
  // OpenCompass's, which both papers with this benchmark take.
  return partial(longbench_score(task, output, texts_of(check, "answers"), classes,
                                 code_ratio::levenshtein, true),
                 "differs from every reference");
}

score summary(const task_item& item, const json_reader& check, std::string_view output) {
  const std::string wanted =
      check.given("answers") ? texts_of(check, "answers").at(0) : item.answer;
  const rouge_scores stem = rouge_score_package(output, wanted, true);
  const rouge_scores plain = rouge_score_package(output, wanted, false);
  score s = partial(stem.rouge_l.f, "words differ from the reference");
  s.measures = {{"rouge1", stem.rouge1.f},
                {"rouge2", stem.rouge2.f},
                {"rougeL", stem.rouge_l.f},
                {"rougeL_no_stemmer", plain.rouge_l.f}};
  return s;
}

score rouge_l(const task_item& item, const json_reader&, std::string_view output) {
  return partial(rouge_score_package(output, item.answer, false).rouge_l.f,
                 "words differ from the reference");
}

}  // namespace

const std::vector<named_item_score>& item_scores() {
  static const std::vector<named_item_score> texts = {{"rouge_l", rouge_l},
                                                      {"gsm8k_lm_eval", gsm8k},
                                                      {"gsm8k_cot_lm_eval", gsm8k_cot},
                                                      {"gsm8k_opencompass", gsm8k_v1},
                                                      {"gsm8k_opencompass_v2", gsm8k_v2},
                                                      {"math_minerva_lm_eval", minerva},
                                                      {"math_opencompass", opencompass_math<1>},
                                                      {"math_opencompass_v2", opencompass_math<2>},
                                                      {"math500_opencompass_verify", verified},
                                                      {"first_capital", capital},
                                                      {"first_option", option},
                                                      {"mmlu_generative_lm_eval", mmlu},
                                                      {"ifeval", instructions},
                                                      {"longbench", longbench},
                                                      {"rouge_score", summary}};
  static const std::vector<named_item_score> all = [] {
    std::vector<named_item_score> list = texts;
    list.insert(list.end(), program_scores().begin(), program_scores().end());
    return list;
  }();
  return all;
}

}  // namespace unmask::scorers
