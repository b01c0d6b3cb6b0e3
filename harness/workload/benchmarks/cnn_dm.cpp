// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// CNN/DailyMail 3.0.0 (See et al. 2017): test.csv (id, article, highlights) or test.jsonl with the
// keys article and highlights. No harness of the papers has this task: the prompt is our choice.
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

source_item item_of(std::size_t row, const std::string& article, const std::string& highlights) {
  source_item item;
  item.id = std::to_string(row);
  item.fields = {{"article", article}};
  item.doc =
      json_object({{"article", json_string(article)}, {"highlights", json_string(highlights)}});
  item.answer = highlights;
  item.check = json_object({{"answers", "[" + json_string(highlights) + "]"}});
  return item;
}

std::vector<source_item> read(const official_files& files, const std::string& split,
                              const std::string&) {
  std::vector<source_item> items;
  const official_text file = files.text("cnn_dm", {split + ".jsonl", split + ".csv"});
  if (file.name.find(".csv") == std::string::npos) {
    each_object(file, [&](const json_reader& object, std::size_t row) {
      items.push_back(item_of(row, object.text("article"), object.text("highlights")));
    });
    return items;
  }
  for (const auto& row : csv_columns(file, {"article", "highlights"})) {
    items.push_back(item_of(items.size(), row[0], row[1]));
  }
  return items;
}

}  // namespace

std::vector<benchmark> cnn_dm() {
  benchmark b = declared_as("cnn_dm", "own", "cnn_dm_3.0.0");
  b.items = 11490;
  b.gen_length = 128;
  b.form = prompt_form::chat;
  b.metric = "ROUGE-L F with stemmer";
  b.scorer = "rouge_score";
  b.read = read;
  b.style = opencompass_style{
      .question = {{"user", "Summarize the following article in a few sentences.\n\n{article}"}}};
  return {b};
}

}  // namespace unmask::declared
