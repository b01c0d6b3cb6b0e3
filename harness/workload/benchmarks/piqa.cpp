// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// PIQA (Bisk et al. 2020; yonatanbisk.com/piqa): valid.jsonl and valid-labels.lst (also dev.jsonl
// and dev-labels.lst), train alike.
#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/text.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

std::vector<int> read_labels(const official_text& file) {
  std::vector<int> labels;
  for_each_line(file.text, [&](std::string_view line, std::size_t number) {
    const std::string_view label = py::strip(line);
    if (label != "0" && label != "1") {
      throw environment_error(file.name + ", line " + std::to_string(number) + ": must be 0 or 1");
    }
    labels.push_back(label == "1" ? 1 : 0);
  });
  return labels;
}

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string&) {
  const bool valid = split == "valid";
  const std::vector<int> labels = read_labels(
      files.text("piqa", valid ? std::vector<std::string>{"valid-labels.lst", "dev-labels.lst"}
                               : std::vector<std::string>{split + "-labels.lst"}));
  const official_text file =
      files.text("piqa", valid ? std::vector<std::string>{"valid.jsonl", "dev.jsonl"}
                               : std::vector<std::string>{split + ".jsonl"});
  std::vector<source_item> items;
  each_object(file, [&](const json_reader& object, std::size_t row) {
    source_item item;
    item.id = std::to_string(row);
    item.choices = {object.text("sol1"), object.text("sol2")};
    item.fields = {
        {"goal", object.text("goal")}, {"sol1", item.choices[0]}, {"sol2", item.choices[1]}};
    item.right = labels.at(std::min(row, labels.size() - 1));
    item.fields["right_choice"] = item.choices[static_cast<std::size_t>(item.right)];
    item.answer = item.right == 1 ? "B" : "A";
    item.check = json_object({{"answer", json_string(item.answer)}, {"options", "\"AB\""}});
    items.push_back(std::move(item));
  });
  if (labels.size() != items.size()) {
    throw environment_error(file.name + ": has " + std::to_string(items.size()) + " items and " +
                            std::to_string(labels.size()) + " labels");
  }
  return items;
}

}  // namespace

std::vector<benchmark> piqa() {
  benchmark lm;
  lm.name = "piqa";
  lm.harness = "LM";
  lm.config = "piqa";
  lm.split = "valid";
  lm.items = 1838;
  lm.metric = "acc_norm";
  lm.scorer = "likelihood_choice";
  lm.examples = {example_rule::drawn, "train"};
  lm.read = read;
  lm.style = lm_eval_style{
      .question = "Question: {goal}\nAnswer:", .target = "{right_choice}", .choices = true};
  benchmark sparse = lm;
  sparse.harness = "OC-S";
  sparse.config = "piqa_gen_1194eb";
  sparse.examples = {};
  sparse.gen_length = 256;
  sparse.max_prompt = 2048;
  sparse.metric = "accuracy";
  sparse.scorer = "first_option";
  sparse.style = opencompass_style{.question = {{"user", "{goal}\nA. {sol1}\nB. {sol2}\nAnswer:"}}};
  return {lm, sparse};
}

}  // namespace unmask::declared
