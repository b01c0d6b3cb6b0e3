// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Scorers: how right an output is. Those of the embedded models' tasks, here, are the definitions in
// experiments/models/train/scorers.py word for word, so that the training side's numbers and ours
// can be compared. Those of published benchmarks (benchmark_list.h) are known by name alone: the
// benchmark's own libraries score their answers, in the Python package (measure/official_scores.h).
//
//   final_number  the integer after the last `####` equals check.value
//   list_program  the program, run on every check.inputs, gives check.outputs (list_language.h)
//   constraints   every rule of check.constraints holds (constraints.h)
//   exact         equals the answer, white space at both ends aside
//   contains      check.text occurs and is not part of a longer run of digits
//   rouge_l       F of the longest common subsequence of words, [a-z0-9]+ of the lower-cased texts,
//                 of output and answer
//   none          not scored: there is no exact answer
#pragma once

#include <map>
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

// Of a text's sequences of four words those that it has had before: a likelihood rewards them. Words are
// letters and digits, in lower case.
measure repeated_sequences(const std::string& name, std::string_view text);

// What one of lm-eval's filters makes of an answer, and the metrics on it as JSON values.
struct filtered_answer {
  std::string filter, text;
  std::vector<std::pair<std::string, std::string>> metrics;
};

struct score {
  bool scored = false;         // false: the scorer is `none` or undecided; value says nothing
  double value = 0;            // 0 to 1
  bool exact = false;          // value is 1
  std::string note;            // why not 1, one line; empty when exact
  bool undecided = false;      // no verdict could be established: counted, never passed
  std::string extracted = {};  // what the scorer took for the answer, where it extracts one
  std::vector<measure> measures = {};
  std::vector<filtered_answer> filters = {};  // as lm-eval reports it; empty: extracted and value
  std::map<std::string, std::string> libraries =
      {};  // name and version of what decided; empty: we did
};

// Those of this program first.
const std::vector<std::string>& scorer_names();

// Whether this program scores it itself.
bool is_own_scorer(const std::string& name);

// Usage error "WHERE: unknown scorer NAME; did you mean ..." unless the name is known.
void require_scorer(const std::string& name, const std::string& where);

// Scores the text an item's prompt led to, special tokens and everything after EOS removed, by one of
// this program's own scorers. Never fails because of the output; usage error for another scorer,
// environment error that names the item when its check lacks what the scorer needs.
score score_answer(const task_item& item, const std::string& output);

}  // namespace unmask
