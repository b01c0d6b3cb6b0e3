// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/rouge.h"

#include <algorithm>
#include <string>
#include <vector>

#include "harness/base/text.h"

namespace unmask {
using namespace py;
namespace {

// The two characters outside ASCII whose lower case is an ASCII letter are handled because the
// reference lower-cases Unicode: the Kelvin sign gives k, and dotted capital I gives i and a
// combining dot, which ends the word.
std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> list;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) list.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const code_point c = decode_utf8(text, at);
    at += c.bytes;
    if (c.value >= U'A' && c.value <= U'Z') {
      word += static_cast<char>(c.value - U'A' + U'a');
    } else if ((c.value >= U'a' && c.value <= U'z') || (c.value >= U'0' && c.value <= U'9')) {
      word += static_cast<char>(c.value);
    } else if (c.value == 0x212A) {
      word += 'k';
    } else {
      if (c.value == 0x0130) word += 'i';
      end_word();
    }
  }
  end_word();
  return list;
}

}  // namespace

double rouge_l(std::string_view output, std::string_view reference) {
  const auto a = words(output);
  const auto b = words(reference);
  std::vector<int> row(b.size() + 1, 0);  // row[j]: LCS of the words of a so far and b[0, j)
  for (const std::string& word : a) {
    int diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  const int common = row.back();
  if (common == 0) return 0;
  const double precision = common / static_cast<double>(a.size());
  const double recall = common / static_cast<double>(b.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace unmask
