// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// ROUGE (Lin, 2004) as two Python packages compute it; they differ from each other and from the
// paper, so a score always names the package.
#pragma once

#include <string>
#include <string_view>

namespace unmask::scorers {

struct rouge_value {
  double precision = 0, recall = 0, f = 0;
};

// Package rouge_score 0.1.2: words are runs of [a-z0-9] after lower-casing, those above three
// letters stemmed where asked; rougeLsum takes lines as sentences.
struct rouge_scores {
  rouge_value rouge1, rouge2, rouge_l, rouge_lsum;
};
rouge_scores rouge_score_package(std::string_view prediction, std::string_view reference,
                                 bool stem);

// Package rouge 1.0.1 (LongBench, OpenCompass): sentences end at every full stop, words at white
// space; n-grams and words are sets; ROUGE-L is the union, over all pairs of sentences, of the
// words of a longest common subsequence; F = 2PR / (P + R + 1e-8).
struct rouge_package_scores {
  rouge_value rouge1, rouge2, rouge_l;
  // Not empty: the package raises this error and the harnesses count 0. It does so for texts
  // without a word, and where its recursion exceeds Python's limit of 1000 frames.
  std::string error;
};
rouge_package_scores rouge_package(std::string_view prediction, std::string_view reference);

}  // namespace unmask::scorers
