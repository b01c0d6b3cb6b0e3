// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LongBench v1 (Bai et al. 2023; github.com/THUDM/LongBench): TASK.jsonl, and dataset2prompt.json and
// dataset2maxlen.json of that repository beside them. OpenCompass' configs have the same text but for
// three tasks.
#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/python_text.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask::declared {
namespace {

const std::vector<std::string_view> tasks = py::words_of(
    "narrativeqa qasper multifieldqa_en multifieldqa_zh hotpotqa 2wikimqa musique dureader "
    "gov_report qmsum multi_news vcsum trec triviaqa samsum lsht passage_count "
    "passage_retrieval_en passage_retrieval_zh lcc repobench-p");

// The value of `task` in one of the two files of settings.
json_value setting(const official_files& files, const std::string& name, const std::string& task) {
  const official_text file = files.text("longbench", {name});
  const json_value all = parse_json(file.text, file.name);
  return json_reader(all, file.name).at(task);
}

// OpenCompass 0.4.2: Qasper has the prompt and the length of the multi-document questions
// (longbench_qasper_gen_6b3efc), NarrativeQA's prompt a blank more, MultiNews' ends with a newline.
const char* const shared_form = "hotpotqa";

std::string opencompass_form(const official_files& files, const std::string& task) {
  const json_value form =
      setting(files, "dataset2prompt.json", task == "qasper" ? shared_form : task);
  if (form.text() == nullptr) {
    throw environment_error("dataset2prompt.json: `" + task + "` must be a string");
  }
  if (task == "narrativeqa") return py::replace_all(*form.text(), "asconcisely", "as concisely");
  return *form.text() + (task == "multi_news" ? "\n" : "");
}

std::vector<source_item> read(const official_files& files, const std::string&,
                              const std::string& task) {
  const official_text file = files.text("longbench", {task + ".jsonl", "data/" + task + ".jsonl"});
  const std::string form = opencompass_form(files, task);
  const json_value length =
      setting(files, "dataset2maxlen.json", task == "qasper" ? shared_form : task);
  if (length.integer() == nullptr) {
    throw environment_error("dataset2maxlen.json: `" + task + "` must be an integer");
  }
  std::vector<source_item> items;
  each_object(file, [&](const json_reader& object, std::size_t row) {
    source_item item;
    item.id = task + ":" + std::to_string(row);
    item.group = task;
    item.gen_length = static_cast<int>(*length.integer());
    // One pass: a document may hold "{input}" itself.
    item.fields["text"] = filled_template(
        form, {{"context", object.text("context")}, {"input", object.text("input")}});
    const std::vector<std::string> answers = texts_of(object, "answers");
    item.answer = answers.empty() ? "" : answers.front();
    item.doc = json_object({{"input", json_string(object.text("input"))},
                            {"context", json_string(object.text("context"))},
                            {"answers", json_text(object.at("answers"))},
                            {"dataset", json_string(task)}});
    item.check =
        json_object({{"all_classes",
                      object.given("all_classes") ? json_text(object.at("all_classes")) : "null"},
                     {"answers", json_text(object.at("answers"))},
                     {"task", json_string(task)}});
    items.push_back(std::move(item));
  });
  return items;
}

}  // namespace

std::vector<benchmark> longbench() {
  benchmark ultra = declared_as("longbench", "OC-U", "longbench");
  ultra.items = 4750;
  // Section 3 of the paper; lengths of dataset2maxlen.json, Qasper's as OpenCompass has it.
  for (const std::string_view task : tasks) ultra.by_group[std::string(task)] = {200, 32};
  for (const char* task :
       {"multifieldqa_en", "multifieldqa_zh", "trec", "lsht", "lcc", "repobench-p"}) {
    ultra.by_group[task].second = 64;
  }
  for (const char* task : {"narrativeqa", "dureader", "samsum"}) ultra.by_group[task].second = 128;
  for (const char* task : {"gov_report", "qmsum", "multi_news", "vcsum"}) {
    ultra.by_group[task].second = 512;
  }
  ultra.by_group["multifieldqa_en"].first = 150;
  ultra.by_group["lcc"].first = ultra.by_group["repobench-p"].first = 500;
  ultra.metric = "LongBench's, by task";
  ultra.scorer = "longbench";
  ultra.read = read;
  ultra.groups.assign(tasks.begin(), tasks.end());
  ultra.style = opencompass_style{.question = {{"user", "{text}"}}};
  ultra.max_prompt = 16000;  // "16K" of the released config
  ultra.cut_middle = true;
  benchmark sparse = ultra;
  sparse.max_prompt = 4096;
  sparse.cut_middle = false;
  sparse.harness = "OC-S";
  return {ultra, sparse};
}

}  // namespace unmask::declared
