// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/benchmark_tasks.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/base/error.h"
#include "harness/workload/scorer.h"
#include "harness/workload/task_pictures.h"

namespace unmask {
namespace {

using json = nlohmann::ordered_json;  // a record's keys keep their order
constexpr int known_format = 1;

std::vector<chat_message> messages_of(const json& list) {
  std::vector<chat_message> all;
  for (const json& m : list) all.push_back({m.at("role"), m.at("content")});
  return all;
}

tasks_head read_head(const json& object) {
  if (object.at("unmask_tasks") != known_format) {
    throw std::runtime_error("is of another version; write it again with `unmask prompts`");
  }
  tasks_head head;
  head.benchmark = object.at("benchmark");
  head.harness = object.at("harness");
  head.version = object.at("version");
  head.config = object.at("config");
  head.form = object.at("form");
  head.metric = object.at("metric");
  head.shots = object.at("shots");
  object.at("library").get_to(head.library);
  object.at("data").get_to(head.data);
  return head;
}

// What an item shows beside its text: a picture in the folder of the tasks, or its codes.
void read_shown(const json& object, const std::filesystem::path& folder, task_item& t) {
  const json images = object.value("images", json::array());
  if (images.size() > 1) throw std::runtime_error("`images` must name one picture");
  for (const json& path : images) {
    try {
      t.pictures.push_back(picture_of_tasks(path, folder));
    } catch (const std::runtime_error& problem) {
      throw std::runtime_error(std::string("`images` ") + problem.what());
    }
  }
  t.codes = object.value("codes", t.codes);
}

benchmark_item read_item(const json& object, const std::filesystem::path& folder) {
  benchmark_item item;
  task_item& t = item.task;
  t.id = object.at("id");
  t.family = object.at("family");
  t.task = object.at("task");
  t.doc_id = object.at("doc_id");
  t.doc = object.at("doc").dump();
  t.answer = object.at("answer");
  t.target = object.value("target", "");
  t.scorer = object.at("scorer");
  require_scorer(t.scorer, "`scorer`");
  t.check = nlohmann::json::parse(object.at("check").dump()).dump();  // keys sorted
  t.gen_length = object.at("gen_length");
  if (object.contains("messages")) t.messages = messages_of(object.at("messages"));
  if (t.messages.empty()) t.prompt = object.at("prompt");
  t.bos = object.value("bos", false);
  t.stop = object.value("stop", t.stop);
  t.continuations = object.value("continuations", t.continuations);
  t.right = object.value("right", -1);
  if (t.gen_length < 1 && t.continuations.empty()) {
    throw std::runtime_error("`gen_length` must be at least 1");
  }
  read_shown(object, folder, t);
  for (const json& shorter : object.value("shorter", json::array())) {
    if (shorter.is_string()) {
      item.shorter_prompts.push_back(shorter);
    } else {
      item.shorter_messages.push_back(messages_of(shorter));
    }
  }
  return item;
}

}  // namespace

benchmark_tasks read_benchmark_tasks(const std::filesystem::path& file, bool head_only) {
  std::ifstream in(file);
  if (!in) throw environment_error(file.string() + ": cannot be read");
  benchmark_tasks tasks;
  std::string line;
  std::size_t number = 0;
  while (std::getline(in, line)) {
    ++number;
    try {
      const json object = json::parse(line);
      if (number > 1) {
        tasks.items.push_back(read_item(object, file.parent_path()));
        continue;
      }
      tasks.head = read_head(object);
      if (head_only) return tasks;
    } catch (const std::exception& problem) {
      throw environment_error(file.string() + ", line " + std::to_string(number) + ": " +
                              problem.what());
    }
  }
  if (number == 0) throw environment_error(file.string() + ": is empty");
  return tasks;
}

}  // namespace unmask
