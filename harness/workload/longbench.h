// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The metrics of LongBench (Bai et al., 2023; THUDM/LongBench, metrics.py and eval.py) that need no
// word segmentation: definitions only, each between one output and one reference, 0 to 1. An item's
// score is the largest over its references.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unmask {

// qa_f1_score: F1 of the words both texts share, counted with multiplicity. Before that letters are
// lower-cased (ASCII only here), ASCII punctuation is deleted and a, an and the are left out, as
// SQuAD does.
double qa_f1(std::string_view output, std::string_view reference);

// classification_score: 1 / the number of class names that occur in the output when the reference
// is among them, else 0. Names inside the reference's own name (as "News" in "Sports News") do not
// count, but of several neighbours in `classes` only every second one is dropped: the published
// loop removes from the list it walks over.
double class_score(std::string_view output, std::string_view reference,
                   const std::vector<std::string>& classes);

// code_sim_score: fuzz.ratio, in whole percent, of the reference and the first line of the output
// that holds none of `, # and //. The ratio is that of Python's difflib (Ratcliff and Obershelp),
// which fuzzywuzzy takes unless python-Levenshtein is installed beside it.
double code_similarity(std::string_view output, std::string_view reference);

// count_score and retrieval_score: of the numbers (runs of digits) in the output, the share that is
// the first one of the reference ("17", "Paragraph 17"), digit by digit; 0 without a number.
double share_of_number(std::string_view output, std::string_view reference);

// The first line of the output, as eval.py cuts answers of tasks whose prompt holds examples.
std::string_view first_line(std::string_view output);

}  // namespace unmask
