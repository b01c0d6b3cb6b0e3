// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scorers: how right an output is. Those of the embedded models' tasks are the definitions in
// experiments/models/train/scorers.py word for word, so that the training side's numbers and ours
// can be compared; the others are the official scorers of the papers' harnesses (scorers/), equal
// case by case to what their code returns.
//
//   final_number  the integer after the last `####` equals check.value
//   list_program  the program, run on every check.inputs, gives check.outputs (list_language.h)
//   constraints   every rule of check.constraints holds (constraints.h)
//   exact         equals the answer, white space at both ends aside
//   contains      check.text occurs and is not part of a longer run of digits
//   rouge_l       F of ROUGE-L of rouge_score without stemmer, against the answer
//   none          not scored: there is no exact answer
//
//   gsm8k_lm_eval, gsm8k_cot_lm_eval   check.target: the worked solution. Value: strict-match;
//                                      flexible-extract beside it
//   gsm8k_opencompass, _v2             check.target
//   math_minerva_lm_eval, math_opencompass, math_opencompass_v2, math500_opencompass_verify
//                                      check.answer: the gold answer in LaTeX
//   first_capital, first_option        check.answer: a letter; check.options: "ABCD"
//   mmlu_generative_lm_eval            check.answer
//   ifeval      check.instruction_id_list, check.kwargs. Value: mean of prompt level and
//               instruction level, strict (FOCUS); the four levels beside it
//   longbench   check.task, check.answers, check.all_classes
//   rouge_score check.answers[0] or the answer. Value: ROUGE-L with stemmer; ROUGE-1, ROUGE-2 and
//               the values without it beside it
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/workload/task.h"

namespace unmask {

// A number beside the score: over a run it is the sum of `sum` over the sum of `of`.
struct measure {
  std::string name;
  double sum = 0;
  double of = 1;
};

// What one of lm-eval's filters makes of an answer, and the metrics on it as JSON values.
struct filtered_answer {
  std::string filter, text;
  std::vector<std::pair<std::string, std::string>> metrics;
};

struct score {
  bool scored = false;  // false: the scorer is `none` or undecided; value says nothing
  double value = 0;     // 0 to 1
  bool exact = false;   // value is 1
  std::string note;     // why not 1, one line; empty when exact
  // The official scorer would give a verdict that ours cannot establish: counted, never passed.
  bool undecided = false;
  std::string extracted = {};  // what the scorer took for the answer, where it extracts one
  std::vector<measure> measures = {};
  std::vector<filtered_answer> filters = {};  // as lm-eval reports it; empty: extracted and value
};

const std::vector<std::string>& scorer_names();

// Usage error "WHERE: unknown scorer NAME; did you mean ..." unless the name is known.
void require_scorer(const std::string& name, const std::string& where);

// Scores the text an item's prompt led to, special tokens and everything after EOS removed.
// Never fails because of the output; usage error for an unknown scorer, environment error that
// names the item when its check lacks what the scorer needs.
score score_answer(const task_item& item, const std::string& output);

}  // namespace unmask
