// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// ARC-Challenge (Clark et al. 2018; allenai.org/data/arc): ARC-Challenge-{Train,Dev,Test}.jsonl.
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

source_item item_of(const json_reader& object, std::size_t row) {
  source_item item;
  item.id = "arc_challenge:" + std::to_string(row);
  const json_reader question = object.child("question");
  item.fields["question"] = question.text("stem");
  const json_value::array* choices = question.at("choices").items();
  const std::string key = object.text("answerKey");
  if (choices == nullptr) question.fail("choices", "must be an array of objects");
  for (const json_value& choice : *choices) {
    if (choice.members() == nullptr) question.fail("choices", "must be an array of objects");
    const json_reader c(choice, object.file(), "question.choices.");
    if (c.text("label") == key) item.right = static_cast<int>(item.choices.size());
    item.fields[std::string(1, static_cast<char>('A' + item.choices.size()))] = c.text("text");
    item.choices.push_back(c.text("text"));
  }
  if (item.right < 0) object.fail("answerKey", "is the label of no choice");
  item.answer = std::string(1, static_cast<char>('A' + item.right));
  item.check = json_object({{"answer", json_string(item.answer)}, {"options", "\"ABCD\""}});
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

benchmark base(const char* harness, const char* config) {
  benchmark b;
  b.name = "arc_c";
  b.harness = harness;
  b.config = config;
  b.split = "dev";
  b.items = 299;
  b.folder = "arc";
  if (b.harness == "OC-S") b.max_prompt = 2048;
  b.metric = "accuracy";
  b.scorer = "first_option";
  b.read = read_four;
  b.style = opencompass_style{
      .question = {{"user", "Question: {question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:"}}};
  return b;
}

}  // namespace

std::vector<benchmark> arc_c() {
  benchmark lm = base("LM", "arc_challenge");
  lm.split = "test";
  lm.items = 1172;
  lm.metric = "acc_norm";
  lm.scorer = "likelihood_choice";
  lm.examples = {example_rule::drawn, "train"};
  lm.read = read;
  lm.style = lm_eval_style{
      .question = "Question: {question}\nAnswer:", .target = "{right_choice}", .choices = true};
  benchmark sparse = base("OC-S", "ARC_c_gen_1e0de5");
  sparse.gen_length = 256;
  benchmark llada = base("OC-L", "ARC_c_gen_1e0de5");
  llada.form = prompt_form::chat;
  llada.gen_length = 512;
  return {lm, sparse, llada};
}

}  // namespace unmask::declared
