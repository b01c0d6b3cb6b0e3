// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/datasets.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"

namespace unmask {
using namespace py;
namespace {

using reader = task_item (*)(const json_reader& object);

constexpr std::int64_t most_ids = std::int64_t{1} << 40;

std::string json_member(const std::string& key, const std::string& json) {
  return "\"" + key + "\":" + json;
}

// The number after the last ####, without commas: "#### 2,125" gives 2125.
std::string gsm8k_value(const json_reader& object, std::string_view answer) {
  const std::size_t mark = answer.rfind("####");
  if (mark == std::string_view::npos) object.fail("answer", "has no #### before its result");
  const std::string value = replace_all(strip(answer.substr(mark + 4)), ",", "");
  const std::string_view digits = std::string_view(value).substr(value.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.size() > 18 ||
      !std::all_of(digits.begin(), digits.end(), is_digit)) {
    object.fail("answer", "ends with " + in_ticks(value) + ", which is not an integer");
  }
  return std::to_string(std::stoll(value));
}

task_item read_gsm8k(const json_reader& object) {
  task_item item;
  item.prompt = object.text("question") +
                "\nPlease reason step by step, and write the final answer after ####.";
  item.answer = object.text("answer");
  item.scorer = "final_number";
  item.check = "{\"commas\":true," + json_member("value", gsm8k_value(object, item.answer)) + "}";
  item.gen_length = 256;
  return item;
}

task_item read_math500(const json_reader& object) {
  task_item item;
  item.id = object.text("unique_id");
  item.prompt = object.text("problem") +
                "\nPlease reason step by step, and put your final answer within \\boxed{}.";
  item.answer = object.text("solution");
  object.text("answer");
  item.scorer = "boxed";
  item.check = "{" + json_member("value", json_text(object.at("answer"))) + "}";
  item.gen_length = 512;
  return item;
}

task_item read_humaneval(const json_reader& object) {
  task_item item;
  item.id = object.text("task_id");
  item.prompt = object.text("prompt");
  item.answer = object.text("canonical_solution");
  item.scorer = "none";
  item.gen_length = 512;
  return item;
}

// The prompt of the MBPP paper (Austin et al. 2021): the task and the tests it must pass.
task_item read_mbpp(const json_reader& object) {
  const json_value::array* tests = object.at("test_list").items();
  if (tests == nullptr) object.fail("test_list", "must be an array of strings");
  task_item item;
  item.id = "mbpp-" + std::to_string(object.integer("task_id", 0, most_ids));
  item.prompt =
      "You are an expert Python programmer, and here is your task: " + object.text("text") +
      " Your code should pass these tests:\n\n";
  for (const json_value& test : *tests) {
    if (test.text() == nullptr) object.fail("test_list", "must be an array of strings");
    item.prompt += *test.text() + "\n";
  }
  item.answer = object.text("code");
  item.scorer = "none";
  item.gen_length = 512;
  return item;
}

// Later turns need the first answer, so a benchmark of single requests plays the first one only.
task_item read_chat(const json_reader& object) {
  const json_value::array* turns = object.at("turns").items();
  if (turns == nullptr || turns->empty() || turns->front().text() == nullptr) {
    object.fail("turns", "must be an array that starts with a string");
  }
  task_item item;
  item.id = std::to_string(object.integer("question_id", 0, most_ids));
  item.family = object.text("category");
  item.prompt = *turns->front().text();
  item.scorer = "none";
  item.check = "{" + json_member("turns", std::to_string(turns->size())) + "}";
  item.gen_length = 1024;
  return item;
}

task_item read_ifeval(const json_reader& object) {
  task_item item;
  item.id = "ifeval-" + std::to_string(object.integer("key", 0, most_ids));
  item.prompt = object.text("prompt");
  item.scorer = "none";
  item.check = "{" +
               json_member("instruction_id_list", json_text(object.at("instruction_id_list"))) +
               "," + json_member("kwargs", json_text(object.at("kwargs"))) + "}";
  item.gen_length = 1024;
  return item;
}

// Puts `context` and `input` in their places in one pass: a document may hold "{input}" itself.
std::string filled(std::string_view form, std::string_view context, std::string_view input) {
  std::string text;
  while (!form.empty()) {
    if (form.starts_with("{context}")) {
      text += context;
      form.remove_prefix(9);
    } else if (form.starts_with("{input}")) {
      text += input;
      form.remove_prefix(7);
    } else {
      text += form[0];
      form.remove_prefix(1);
    }
  }
  return text;
}

// dataset2metric of eval.py, without what needs Chinese words (dureader, multifieldqa_zh, vcsum) or
// asks in Chinese for a passage (passage_retrieval_zh).
std::string longbench_scorer(const std::string& task) {
  static const std::map<std::string, const char*> scorers = {
      {"narrativeqa", "qa_f1"},
      {"qasper", "qa_f1"},
      {"multifieldqa_en", "qa_f1"},
      {"hotpotqa", "qa_f1"},
      {"2wikimqa", "qa_f1"},
      {"musique", "qa_f1"},
      {"triviaqa", "qa_f1"},
      {"gov_report", "rouge_l"},
      {"qmsum", "rouge_l"},
      {"multi_news", "rouge_l"},
      {"samsum", "rouge_l"},
      {"trec", "classification"},
      {"lsht", "classification"},
      {"lcc", "code_similarity"},
      {"repobench-p", "code_similarity"},
      {"passage_count", "share_of_number"},
      {"passage_retrieval_en", "share_of_number"}};
  const auto found = scorers.find(task);
  return found == scorers.end() ? "none" : found->second;
}

std::vector<task_item> read_longbench(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const std::string prompts_path = (folder / "dataset2prompt.json").string();
  const std::string lengths_path = (folder / "dataset2maxlen.json").string();
  std::vector<task_item> items;
  // The data first: a compressed or missing file is the more useful thing to hear about.
  read_workload_text(path);
  const json_value prompts = parse_json(read_workload_text(prompts_path), prompts_path);
  const json_value lengths = parse_json(read_workload_text(lengths_path), lengths_path);
  const json_reader prompt_of(prompts, prompts_path), length_of(lengths, lengths_path);
  for_each_json_line(path, [&](const json_reader& object, std::size_t) {
    task_item item;
    item.family = object.text("dataset");
    item.id = "longbench-" + item.family + "-" + object.text("_id");
    item.prompt = filled(prompt_of.text(item.family), object.text("context"), object.text("input"));
    item.gen_length = static_cast<int>(length_of.integer(item.family, 1, 1 << 20));
    const json_value::array* answers = object.at("answers").items();
    if (answers == nullptr || answers->empty() || answers->front().text() == nullptr) {
      object.fail("answers", "must be an array of strings");
    }
    item.answer = *answers->front().text();
    item.scorer = longbench_scorer(item.family);
    if (item.scorer == "rouge_l" && answers->size() != 1) item.scorer = "none";
    item.check = "{";
    if (item.scorer == "classification") {
      item.check += json_member("all_classes", json_text(object.at("all_classes"))) + ",";
    }
    item.check += json_member("answers", json_text(object.at("answers")));
    // eval.py cuts the answers of these, whose prompts hold examples in the same form.
    const std::set<std::string> cut = {"trec", "triviaqa", "samsum", "lsht"};
    if (cut.contains(item.family)) item.check += "," + json_member("first_line", "true");
    item.check += "}";
    items.push_back(std::move(item));
  });
  return items;
}

struct named_reader {
  const char* name;
  reader read;  // null: longbench, whose prompts lie in files of their own
};
constexpr named_reader readers[] = {
    {"gsm8k", read_gsm8k},     {"math500", read_math500}, {"humaneval", read_humaneval},
    {"mbpp", read_mbpp},       {"mt_bench", read_chat},   {"vicuna_bench", read_chat},
    {"spec_bench", read_chat}, {"longbench", nullptr},    {"ifeval", read_ifeval}};

std::vector<task_item> read_with(const named_reader& found, const std::string& path) {
  if (found.read == nullptr) return read_longbench(path);
  std::vector<task_item> items;
  for_each_json_line(path, [&](const json_reader& object, std::size_t) {
    task_item item = found.read(object);
    const std::string name = found.name;
    if (item.id.empty()) item.id = std::to_string(items.size());
    if (!item.id.starts_with(name)) item.id = name + "-" + item.id;
    if (item.family.empty()) item.family = name;
    items.push_back(std::move(item));
  });
  return items;
}

}  // namespace

const std::vector<std::string>& dataset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const named_reader& r : readers) list.emplace_back(r.name);
    return list;
  }();
  return names;
}

std::vector<task_item> read_dataset(const std::string& name, const std::string& path) {
  const auto* found = std::find_if(std::begin(readers), std::end(readers),
                                   [&](const named_reader& r) { return name == r.name; });
  if (found == std::end(readers)) {
    throw usage_error("there is no dataset " + in_ticks(name) + "; did you mean " +
                      nearest_list(name, dataset_names(), 1) + "?");
  }
  try {
    return read_with(*found, path);
  } catch (const error& problem) {
    throw error(problem.code(), "dataset " + name + ": " + problem.what());
  }
}

}  // namespace unmask
