// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// PIQA (Bisk et al. 2020; yonatanbisk.com/piqa): valid.jsonl and valid-labels.lst (also dev.jsonl
// and dev-labels.lst), train alike.
#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

std::vector<std::size_t> read_labels(const official_text& file) {
  std::vector<std::size_t> labels;
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
  std::vector<std::string> stems = {split};
  if (split == "valid") stems.push_back("dev");
  const auto named = [&](const char* ending) {
    std::vector<std::string> names;
    for (const std::string& stem : stems) names.push_back(stem + ending);
    return names;
  };
  const std::vector<std::size_t> labels = read_labels(files.text("piqa", named("-labels.lst")));
  const official_text file = files.text("piqa", named(".jsonl"));
  std::vector<source_item> items;
  each_object(file, [&](const json_reader& object, std::size_t row) {
    source_item item;
    item.id = std::to_string(row);
    const std::size_t right = labels.at(std::min(row, labels.size() - 1));
    const std::string goal = object.text("goal"), sol1 = object.text("sol1");
    const std::string sol2 = object.text("sol2");
    item.fields = {{"goal", goal}, {"sol1", sol1}, {"sol2", sol2}};
    item.doc = json_object({{"goal", json_string(goal)},
                            {"sol1", json_string(sol1)},
                            {"sol2", json_string(sol2)},
                            {"label", std::to_string(right)}});
    set_options(item, {sol1, sol2}, right);
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
  benchmark lm = declared_as("piqa", "LM", "piqa");
  lm.metric = "acc_norm";
  lm.scorer = "likelihood_choice";
  lm.examples = {example_rule::drawn, "train", true};
  lm.style = lm_eval_style{
      .question = "Question: {goal}\nAnswer:", .target = "{right_choice}", .choices = true};
  benchmark sparse = declared_as("piqa", "OC-S", "piqa_gen_1194eb");
  sparse.scorer = "first_option";
  sparse.style = opencompass_style{.question = {{"user", "{goal}\nA. {sol1}\nB. {sol2}\nAnswer:"}}};
  for (benchmark* b : {&lm, &sparse}) {
    b->split = "valid";
    b->items = 1838;
    b->read = read;
  }
  return {lm, sparse};
}

}  // namespace unmask::declared
