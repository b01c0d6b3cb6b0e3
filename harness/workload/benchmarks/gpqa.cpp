// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// GPQA (Rein et al. 2023; github.com/idavidrein/gpqa): gpqa_diamond.csv and gpqa_main.csv, whose header
// names the columns. The items are gated and their authors ask not to publish them: nothing of them is here.
#include <algorithm>
#include <array>

#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/declare.h"
#include "harness/workload/benchmarks/python_random.h"

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

// What lm-eval makes of an option: " [title]" ends a sentence, other brackets go, two blanks are one.
std::string cleaned(const std::string& option) {
  std::string text = py::replace_all(std::string(py::strip(option)), " [title]", ". ");
  for (std::size_t open = text.find('['); open != std::string::npos; open = text.find('[', open)) {
    const std::size_t close = text.find(']', open);
    if (close == std::string::npos) break;
    if (text.find('\n', open) < close) {
      ++open;  // its pattern does not cross lines
    } else {
      text.erase(open, close + 1 - open);
    }
  }
  return py::replace_all(text, "  ", " ");
}

// lm-eval shuffles the options of one item after the other with one generator. In the first run on a
// machine it shuffles anew whenever it looks at the file, and so judges by other letters than it asked
// with; this is what later runs find in the cache of `datasets`: one order for all.
std::vector<source_item> read_shuffled(const official_files& files, const std::string& split,
                                       const std::string&) {
  python_random generator(42);
  std::vector<source_item> items;
  for (const auto& row : csv_columns(files.text("gpqa", {"gpqa_" + split + ".csv"}), columns)) {
    source_item item;
    item.id = std::to_string(items.size());
    std::vector<std::string> options = {cleaned(row[2]), cleaned(row[3]), cleaned(row[4]),
                                        cleaned(row[1])};
    generator.shuffle(options);
    const auto right = std::ranges::find(options, cleaned(row[1])) - options.begin();
    item.fields["question"] = row[0];
    item.doc = json_object({{"Question", json_string(row[0])},
                            {"choice1", json_string(options[0])},
                            {"choice2", json_string(options[1])},
                            {"choice3", json_string(options[2])},
                            {"choice4", json_string(options[3])},
                            {"answer", json_string({'(', static_cast<char>('A' + right), ')'})}});
    set_options(item, std::move(options), static_cast<std::size_t>(right));
    item.choices = {"(A)", "(B)", "(C)", "(D)"};
    items.push_back(std::move(item));
  }
  return items;
}

benchmark by_likelihood() {
  benchmark b = declared_as("gpqa", "LM", "gpqa_main_n_shot");
  b.split = "main";
  b.shots = 5;
  b.items = 448;
  b.metric = "acc";
  b.scorer = "likelihood_choice";
  b.examples = {example_rule::drawn, "main", true};
  b.read = read_shuffled;
  b.style = lm_eval_style{
      .question = "Question: {question}\nChoices:\n(A) {A}\n(B) {B}\n(C) {C}\n(D) {D}\nAnswer:",
      .target = "({answer})",
      .description =
          "Here are some example questions from experts. Answer the final question "
          "yourself, following the format of the previous questions exactly.\n",
      .choices = true};
  return b;
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
  return {b, by_likelihood()};
}

}  // namespace unmask::declared
