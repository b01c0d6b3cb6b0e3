// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scorers: how right an output is. Those of the embedded models' tasks are the definitions in
// experiments/models/train/scorers.py word for word, so that the training side's numbers and ours
// can be compared. rouge_l and LongBench's metrics give partial credit. check.first_line: these
// look at the first line of the output only.
//
//   final_number  the integer after the last `####` equals check.value; with check.commas also
//                 "2,125", "$18" and "18." are read as numbers, as published GSM8K filters do
//   list_program  the program, run on every check.inputs, gives check.outputs (list_language.h)
//   constraints   every rule of check.constraints holds (constraints.h)
//   exact         equals the answer, white space at both ends aside
//   contains      check.text occurs and is not part of a longer run of digits
//   rouge_l       F1 of the longest common subsequence of words (rouge.h)
//   boxed         the last \boxed{} equals check.value after MATH's normalisation (math_answer.h)
//   qa_f1, classification, code_similarity, share_of_number
//                 LongBench's metrics (longbench.h), the best over check.answers; classification
//                 also needs check.all_classes
//   none          not scored: there is no exact answer, or scoring needs to execute foreign code
#pragma once

#include <string>
#include <vector>

#include "harness/workload/task.h"

namespace unmask {

struct score {
  bool scored = false;  // false: the scorer is `none`; value says nothing
  double value = 0;     // 0 to 1
  bool exact = false;   // value is 1
  std::string note;     // why not 1, one line; empty when exact
};

const std::vector<std::string>& scorer_names();

// Usage error "WHERE: there is no scorer NAME; did you mean ..." unless the name is known.
void require_scorer(const std::string& name, const std::string& where);

// Scores the text an item's prompt led to, special tokens and everything after EOS removed.
// Never fails because of the output; usage error for an unknown scorer, environment error that
// names the item when its check lacks what the scorer needs.
score score_answer(const task_item& item, const std::string& output);

}  // namespace unmask
