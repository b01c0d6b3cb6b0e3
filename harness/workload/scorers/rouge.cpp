// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/rouge.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "harness/base/python_text.h"
#include "harness/workload/scorers/porter_stemmer.h"

namespace unmask::scorers {
namespace {

using words = std::vector<std::string>;

// Lengths of the longest common subsequences of all prefixes, (a + 1) x (b + 1), row by row.
class lcs_table {
 public:
  lcs_table(const words& a, const words& b)
      : width_(b.size() + 1), cells_((a.size() + 1) * width_) {
    for (std::size_t i = 1; i <= a.size(); ++i) {
      for (std::size_t j = 1; j <= b.size(); ++j) {
        cells_[i * width_ + j] =
            a[i - 1] == b[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
      }
    }
  }
  int at(std::size_t i, std::size_t j) const { return cells_[i * width_ + j]; }

 private:
  std::size_t width_;
  std::vector<int> cells_;
};

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

rouge_value plain_f(double precision, double recall) {
  const double sum = precision + recall;
  return {precision, recall, sum > 0 ? 2 * precision * recall / sum : 0.0};
}

words tokens_of(std::string_view text, bool stem) {
  words all;
  std::string word;
  const std::string lower = py::lower(text);
  for (std::size_t i = 0; i <= lower.size(); ++i) {
    const char c = i < lower.size() ? lower[i] : ' ';
    if ((c >= 'a' && c <= 'z') || py::is_digit(c)) {
      word += c;
    } else if (!word.empty()) {
      all.push_back(stem && word.size() > 3 ? porter_stem(word) : word);
      word.clear();
    }
  }
  return all;
}

std::map<words, std::size_t> counted_ngrams(const words& tokens, std::size_t n) {
  std::map<words, std::size_t> counts;
  for (std::size_t i = 0; i + n <= tokens.size(); ++i) {
    ++counts[words(tokens.begin() + static_cast<std::ptrdiff_t>(i),
                   tokens.begin() + static_cast<std::ptrdiff_t>(i + n))];
  }
  return counts;
}

rouge_value ngram_score(const words& prediction, const words& reference, std::size_t n) {
  const auto ours = counted_ngrams(prediction, n), wanted = counted_ngrams(reference, n);
  std::size_t common = 0, our_count = 0, wanted_count = 0;
  for (const auto& [gram, count] : wanted) {
    wanted_count += count;
    if (const auto found = ours.find(gram); found != ours.end()) {
      common += std::min(count, found->second);
    }
  }
  for (const auto& [gram, count] : ours) our_count += count;
  return plain_f(share(common, our_count), share(common, wanted_count));
}

rouge_value lcs_score(const words& prediction, const words& reference) {
  if (prediction.empty() || reference.empty()) return {};
  const auto length = static_cast<std::size_t>(
      lcs_table(reference, prediction).at(reference.size(), prediction.size()));
  return plain_f(share(length, prediction.size()), share(length, reference.size()));
}

std::vector<words> lines_of(std::string_view text, bool stem) {
  std::vector<words> lines;
  for (const std::string_view line : py::split(text, "\n")) {
    if (!line.empty()) lines.push_back(tokens_of(line, stem));
  }
  return lines;
}

// Places in the reference of one longest common subsequence.
void add_lcs_places(const words& reference, const words& candidate, std::set<std::size_t>& places) {
  const lcs_table table(reference, candidate);
  std::size_t i = reference.size(), j = candidate.size();
  while (i > 0 && j > 0) {
    if (reference[i - 1] == candidate[j - 1]) {
      places.insert(i - 1);
      --i;
      --j;
    } else if (table.at(i, j - 1) > table.at(i - 1, j)) {
      --j;
    } else {
      --i;
    }
  }
}

rouge_value summary_score(const std::vector<words>& prediction,
                          const std::vector<words>& reference) {
  std::map<std::string, std::size_t> left_here, left_there;
  std::size_t n = 0, m = 0, hits = 0;
  for (const words& line : prediction) {
    n += line.size();
    for (const std::string& word : line) ++left_here[word];
  }
  for (const words& line : reference) {
    m += line.size();
    for (const std::string& word : line) ++left_there[word];
  }
  if (n == 0 || m == 0) return {};
  for (const words& line : reference) {
    std::set<std::size_t> places;
    for (const words& candidate : prediction) add_lcs_places(line, candidate, places);
    for (const std::size_t place : places) {
      std::size_t& here = left_here[line[place]];
      std::size_t& there = left_there[line[place]];
      if (here == 0 || there == 0) continue;
      ++hits;
      --here;
      --there;
    }
  }
  return plain_f(share(hits, n), share(hits, m));
}

// Package rouge: text between full stops, white space collapsed; words keep case and punctuation.
std::vector<words> sentences_of(std::string_view text) {
  std::vector<words> all;
  for (const std::string_view piece : py::split(text, ".")) {
    if (piece.empty()) continue;
    words sentence;
    for (const std::string_view word : py::words_of(piece)) sentence.emplace_back(word);
    if (sentence.empty()) sentence.emplace_back();  // blanks alone split into one empty word
    all.push_back(std::move(sentence));
  }
  return all;
}

std::set<words> distinct_ngrams(const std::vector<words>& sentences, std::size_t n) {
  words flat;
  for (const words& s : sentences) flat.insert(flat.end(), s.begin(), s.end());
  std::set<words> grams;
  for (auto& [gram, count] : counted_ngrams(flat, n)) grams.insert(gram);
  return grams;
}

rouge_value damped_f(double precision, double recall) {
  return {precision, recall, 2.0 * (precision * recall / (precision + recall + 1e-8))};
}

rouge_value distinct_score(const std::vector<words>& prediction,
                           const std::vector<words>& reference, std::size_t n) {
  const auto ours = distinct_ngrams(prediction, n), wanted = distinct_ngrams(reference, n);
  std::size_t common = 0;
  for (const words& gram : ours) common += wanted.count(gram);
  return damped_f(share(common, ours.size()), share(common, wanted.size()));
}

// Words of the longest common subsequence that the package's recursion finds; false when the
// recursion is deeper than Python allows below six frames of the package and three of eval.py.
bool add_lcs_words(const words& reference, const words& candidate, std::set<std::string>& found) {
  constexpr int deepest = 1000 - 9;
  const lcs_table table(reference, candidate);
  std::size_t i = reference.size(), j = candidate.size();
  int depth = 1;
  for (; i > 0 && j > 0; ++depth) {
    if (reference[i - 1] == candidate[j - 1]) {
      found.insert(reference[i - 1]);
      --i;
      --j;
    } else if (table.at(i - 1, j) > table.at(i, j - 1)) {
      --i;
    } else {
      --j;
    }
  }
  return depth <= deepest;
}

}  // namespace

rouge_scores rouge_score_package(std::string_view prediction, std::string_view reference,
                                 bool stem) {
  const words ours = tokens_of(prediction, stem), wanted = tokens_of(reference, stem);
  return {ngram_score(ours, wanted, 1), ngram_score(ours, wanted, 2), lcs_score(ours, wanted),
          summary_score(lines_of(prediction, stem), lines_of(reference, stem))};
}

rouge_package_scores rouge_package(std::string_view prediction, std::string_view reference) {
  const auto ours = sentences_of(prediction), wanted = sentences_of(reference);
  rouge_package_scores scores;
  if (ours.empty()) scores.error = "ValueError: Hypothesis is empty.";
  if (scores.error.empty() && wanted.empty()) scores.error = "ValueError: Reference is empty.";
  if (!scores.error.empty()) return scores;
  scores.rouge1 = distinct_score(ours, wanted, 1);
  scores.rouge2 = distinct_score(ours, wanted, 2);
  std::set<std::string> united;
  for (const words& line : wanted) {
    for (const words& candidate : ours) {
      if (add_lcs_words(line, candidate, united)) continue;
      scores.error = "RecursionError: maximum recursion depth exceeded";
      return scores;
    }
  }
  scores.rouge_l = damped_f(share(united.size(), distinct_ngrams(ours, 1).size()),
                            share(united.size(), distinct_ngrams(wanted, 1).size()));
  return scores;
}

}  // namespace unmask::scorers
