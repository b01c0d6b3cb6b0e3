// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// ARC-Challenge (Clark et al. 2018; allenai.org/data/arc): ARC-Challenge-{Train,Dev,Test}.jsonl.
#include <algorithm>

#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

source_item item_of(const json_reader& object, std::size_t row) {
  source_item item;
  item.id = "arc_challenge:" + std::to_string(row);
  const json_reader question = object.child("question");
  item.fields["question"] = question.text("stem");
  const json_value::array* choices = question.at("choices").items();
  if (choices == nullptr) question.fail("choices", "must be an array of objects");
  std::vector<std::string> labels, texts;
  for (const json_value& choice : *choices) {
    if (choice.members() == nullptr) question.fail("choices", "must be an array of objects");
    const json_reader c(choice, object.file(), "question.choices.");
    labels.push_back(c.text("label"));
    texts.push_back(c.text("text"));
  }
  const std::string key = object.text("answerKey");
  const auto right = std::ranges::find(labels, key);
  if (right == labels.end()) object.fail("answerKey", "is the label of no choice");
  item.doc = json_object(
      {{"id", json_string(object.text_or("id", item.id))},
       {"question", json_string(item.fields["question"])},
       {"choices", json_object({{"text", json_strings(texts)}, {"label", json_strings(labels)}})},
       {"answerKey", json_string(key)}});
  set_options(item, std::move(texts), static_cast<std::size_t>(right - labels.begin()));
  return item;
}

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string&) {
  std::vector<source_item> items;
  const std::string name = split == "test" ? "Test" : split == "train" ? "Train" : "Dev";
  each_object(
      files.text("arc", {"ARC-Challenge/ARC-Challenge-" + name + ".jsonl",
                         "ARC-Challenge-" + name + ".jsonl"}),
      [&](const json_reader& object, std::size_t row) { items.push_back(item_of(object, row)); });
  return items;
}

// OpenCompass takes rows of four options only.
std::vector<source_item> read_four(const official_files& files, const std::string& split,
                                   const std::string& group) {
  std::vector<source_item> items = read(files, split, group);
  std::erase_if(items, [](const source_item& i) { return i.choices.size() != 4; });
  return items;
}

benchmark opencompass(const char* harness) {
  benchmark b = declared_as("arc_c", harness, "ARC_c_gen_1e0de5");
  b.split = "dev";
  b.items = 299;
  b.folder = "arc";
  b.scorer = "first_option";
  b.read = read_four;
  b.style = opencompass_style{
      .question = {{"user", "Question: {question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:"}}};
  return b;
}

}  // namespace

std::vector<benchmark> arc_c() {
  benchmark lm = declared_as("arc_c", "LM", "arc_challenge");
  lm.items = 1172;
  lm.folder = "arc";
  lm.metric = "acc_norm";
  lm.scorer = "likelihood_choice";
  lm.examples = {example_rule::drawn, "train"};
  lm.read = read;
  lm.style = lm_eval_style{
      .question = "Question: {question}\nAnswer:", .target = "{right_choice}", .choices = true};
  benchmark llada = opencompass("OC-L");
  llada.gen_length = 512;
  return {lm, opencompass("OC-S"), llada};
}

}  // namespace unmask::declared
