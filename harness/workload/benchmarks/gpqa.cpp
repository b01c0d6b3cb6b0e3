// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// GPQA (Rein et al. 2023; github.com/idavidrein/gpqa): gpqa_diamond.csv, whose header names the
// columns. The items are gated and their authors ask not to publish them: nothing of them is here.
#include <algorithm>
#include <array>

#include "harness/base/error.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

// OpenCompass' orders of correct, wrong 1, wrong 2, wrong 3 under A to D; row i, from 1, takes order
// i mod 4.
constexpr std::array<std::string_view, 4> orders = {"ABCD", "BCDA", "CDAB", "DABC"};

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string&) {
  const official_text file = files.text("gpqa", {"gpqa_" + split + ".csv"});
  const auto rows = csv_rows(file);
  if (rows.empty()) throw environment_error(file.name + ": is empty");
  const std::array<std::string, 5> names = {"Question", "Correct Answer", "Incorrect Answer 1",
                                            "Incorrect Answer 2", "Incorrect Answer 3"};
  std::array<std::size_t, 5> column{};
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto found = std::ranges::find(rows.front(), names[n]);
    if (found == rows.front().end()) {
      throw environment_error(file.name + ": has no column \"" + names[n] + "\"");
    }
    column[n] = static_cast<std::size_t>(found - rows.front().begin());
  }
  std::vector<source_item> items;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    source_item item;
    const auto cell = [&](std::size_t n) {
      if (column[n] >= rows[i].size()) {
        throw environment_error(file.name + ", row " + std::to_string(i) + ": is cut off");
      }
      return rows[i][column[n]];
    };
    item.id = std::to_string(i - 1);
    item.fields["question"] = cell(0);
    for (std::size_t o = 0; o < 4; ++o) {
      const std::size_t which = static_cast<std::size_t>(orders[i % 4][o] - 'A');
      item.choices.push_back(cell(1 + which));
      item.fields[std::string(1, static_cast<char>('A' + o))] = item.choices.back();
    }
    // The first option with the right text counts, as there.
    item.right = static_cast<int>(std::ranges::find(item.choices, cell(1)) - item.choices.begin());
    item.answer = std::string(1, static_cast<char>('A' + item.right));
    item.fields["answer"] = item.answer;
    item.check = json_object({{"answer", json_string(item.answer)}, {"options", "\"ABCD\""}});
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

std::vector<benchmark> gpqa() {
  benchmark b;
  b.name = "gpqa";
  b.harness = "OC-S";
  b.config = "gpqa_gen_5shot";
  b.split = "diamond";
  b.shots = 5;
  b.items = 198;
  b.max_prompt = 2048;
  b.gen_length = 256;
  b.metric = "accuracy";
  b.scorer = "first_capital";
  b.examples = {example_rule::test, ""};  // rows 0 to 4 of the file that is asked
  b.read = read;
  b.style = opencompass_style{
      .example = {{"user",
                   "Question: {question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer: {answer}\n"}},
      .question = {{"user", "Question: {question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:"}},
      .plain = true,
      .lead =
          "For the multiple choice question below, please provide the correct answer option "
          "directly.\n"};
  return {b};
}

}  // namespace unmask::declared
