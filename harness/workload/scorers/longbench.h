// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The metrics of LongBench v1 (Bai et al., 2023; THUDM/LongBench 2e00731, metrics.py and eval.py;
// the copy in OpenCompass 0.4.2 agrees). Each compares one prediction with one reference and gives
// 0 to 1; a task's score is the best over the references.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask::scorers {

// qa_f1_score: F1 of the words both texts share, counted with multiplicity, after lower-casing and
// without ASCII punctuation and the words a, an, the.
double qa_f1(std::string_view prediction, std::string_view reference);
// qa_f1_zh_score: the same over jieba's words, each without ASCII and Chinese punctuation.
double qa_f1_zh(std::string_view prediction, std::string_view reference);

// rouge_score: F of ROUGE-L of the package rouge (rouge.h); 0 where the package raises an error.
double rouge_longbench(std::string_view prediction, std::string_view reference);
// rouge_zh_score: the same over jieba's words, joined by blanks.
double rouge_longbench_zh(std::string_view prediction, std::string_view reference);

// classification_score: 1 / the number of class names in the prediction when the reference is
// among them, else 0. A name inside the reference's own name is dropped, but the published loop
// removes from the list that it walks over and so skips the next one.
double classification(std::string_view prediction, std::string_view reference,
                      const std::vector<std::string>& classes);

// retrieval_score ("Paragraph 17"), retrieval_zh_score (the same word in Chinese) and count_score
// (the reference is the number): the share of all numbers in the prediction that are the right one.
double retrieval(std::string_view prediction, std::string_view reference);
double retrieval_zh(std::string_view prediction, std::string_view reference);
double count_score(std::string_view prediction, std::string_view reference);

// code_sim_score: fuzzywuzzy's ratio, in whole percent, of the reference and the first line of the
// prediction without `, # and //. With python-Levenshtein installed, as OpenCompass requires, it is
// 1 - d / (both lengths), d the edit distance where a substitution counts 2; without it, as in
// LongBench's own requirements, it is difflib's (Ratcliff and Obershelp).
enum class code_ratio { levenshtein, difflib };
double code_similarity(std::string_view prediction, std::string_view reference,
                       code_ratio ratio = code_ratio::levenshtein);

// The first line behind leading newlines: what eval.py takes of a prediction for trec, triviaqa,
// samsum and lsht.
std::string_view first_line(std::string_view prediction);

// A task of LongBench and how it is scored.
struct longbench_task {
  const char* name;
  const char* metric;  // qa_f1, rouge, classification, ... as the functions above
  bool first_line;
};
// Null for a name that is none of the 21 tasks.
const longbench_task* find_longbench_task(std::string_view name);

// The best over the references, as eval.py has it (first line included where the task asks for
// it). Usage error for an unknown task.
// opencompass: its rouge_zh cuts the prediction anew for every reference, the cut text of the one
// before; LongBench cuts the prediction itself each time.
double longbench_score(std::string_view task, std::string_view prediction,
                       const std::vector<std::string>& references,
                       const std::vector<std::string>& classes,
                       code_ratio ratio = code_ratio::levenshtein, bool opencompass = false);

}  // namespace unmask::scorers
