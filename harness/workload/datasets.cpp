// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/datasets.h"

#include <algorithm>
#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"
#include "harness/base/text.h"
#include "harness/workload/scorers/longbench.h"

namespace unmask {
using namespace py;
namespace {

using reader = task_item (*)(const json_reader& object);

constexpr std::int64_t most_ids = std::int64_t{1} << 40;

std::string json_member(const std::string& key, const std::string& json) {
  return "\"" + key + "\":" + json;
}

task_item read_gsm8k(const json_reader& object) {
  task_item item;
  item.prompt = object.text("question") +
                "\nPlease reason step by step, and write the final answer after ####.";
  item.answer = object.text("answer");
  if (item.answer.find("#### ") == std::string::npos) {
    object.fail("answer", "has no #### before its result");
  }
  item.scorer = "gsm8k_lm_eval";
  item.check = "{" + json_member("target", json_text(object.at("answer"))) + "}";
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
  item.scorer = "math_opencompass_v2";
  item.check = "{" + json_member("answer", json_text(object.at("answer"))) + "}";
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
  item.scorer = "ifeval";
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
    item.scorer = scorers::find_longbench_task(item.family) != nullptr ? "longbench" : "none";
    item.check =
        "{" +
        json_member("all_classes",
                    object.given("all_classes") ? json_text(object.at("all_classes")) : "null") +
        "," + json_member("answers", json_text(object.at("answers"))) + "," +
        json_member("task", json_text(object.at("dataset"))) + "}";
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
