// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// GPQA (Rein et al. 2023; github.com/idavidrein/gpqa): gpqa_diamond.csv, whose header names the
// columns. The items are gated and their authors ask not to publish them: nothing of them is here.
#include <algorithm>
#include <array>

#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

const std::vector<std::string> columns = {"Question", "Correct Answer", "Incorrect Answer 1",
                                          "Incorrect Answer 2", "Incorrect Answer 3"};

// OpenCompass' orders of correct, wrong 1, wrong 2, wrong 3 under A to D; row i, from 1, takes order
// i mod 4.
constexpr std::array<std::string_view, 4> orders = {"ABCD", "BCDA", "CDAB", "DABC"};

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string&) {
  std::vector<source_item> items;
  for (const auto& row : csv_columns(files.text("gpqa", {"gpqa_" + split + ".csv"}), columns)) {
    source_item item;
    item.id = std::to_string(items.size());
    item.fields["question"] = row[0];
    item.doc = json_object({{"Question", json_string(row[0])},
                            {"Correct Answer", json_string(row[1])},
                            {"Incorrect Answer 1", json_string(row[2])},
                            {"Incorrect Answer 2", json_string(row[3])},
                            {"Incorrect Answer 3", json_string(row[4])}});
    std::vector<std::string> options;
    for (const char which : orders[(items.size() + 1) % 4]) {
      options.push_back(row[1 + static_cast<std::size_t>(which - 'A')]);
    }
    // The first option with the right text counts, as there.
    const auto right = std::ranges::find(options, row[1]) - options.begin();
    set_options(item, std::move(options), static_cast<std::size_t>(right));
    items.push_back(std::move(item));
  }
  return items;
}

}  // namespace

std::vector<benchmark> gpqa() {
  benchmark b = declared_as("gpqa", "OC-S", "gpqa_gen_5shot");
  b.split = "diamond";
  b.shots = 5;
  b.items = 198;
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
