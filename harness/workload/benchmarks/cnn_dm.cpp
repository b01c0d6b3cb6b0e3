// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// CNN/DailyMail 3.0.0 (See et al. 2017): test.csv (id, article, highlights) or test.jsonl with the
// keys article and highlights. No harness of the papers has this task: the prompt is our choice.
#include <algorithm>

#include "harness/base/error.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

source_item item_of(std::size_t row, const std::string& article, const std::string& highlights) {
  source_item item;
  item.id = std::to_string(row);
  item.fields = {{"article", article}};
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
  const auto rows = csv_rows(file);
  if (rows.empty()) throw environment_error(file.name + ": is empty");
  const auto column = [&](const char* name) {
    const auto found = std::ranges::find(rows.at(0), name);
    if (found == rows[0].end()) throw environment_error(file.name + ": has no column " + name);
    return static_cast<std::size_t>(found - rows[0].begin());
  };
  const std::size_t article = column("article"), highlights = column("highlights");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    if (rows[i].size() <= std::max(article, highlights)) {
      throw environment_error(file.name + ", row " + std::to_string(i) + ": is cut off");
    }
    items.push_back(item_of(i - 1, rows[i][article], rows[i][highlights]));
  }
  return items;
}

}  // namespace

std::vector<benchmark> cnn_dm() {
  benchmark b;
  b.name = "cnn_dm";
  b.harness = "own";
  b.config = "cnn_dm_3.0.0";
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
