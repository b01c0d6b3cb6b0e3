// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/programs/replay.h"

#include <functional>

#include "harness/base/compressed.h"
#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/workload/programs/python_program.h"
#include "harness/workload/scorer.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

// What the recorded extraction paths are called, by their beginnings, and our scorer of each.
const std::vector<std::pair<std::string, std::string>> scorer_of = {
    {"lm_eval (prompt", "humaneval_lm_eval"},
    {"fast_dllm", "humaneval_fast_dllm"},
    {"opencompass_0.4.2", "humaneval_opencompass_llada"},
    {"opencompass_0.5.1_focus", "humaneval_opencompass_focus"},
    {"sparse_dllm human_eval_postprocess_new_chat", "humaneval_opencompass_sparse_chat"},
    {"sparse_dllm human_eval_postprocess_new", "humaneval_opencompass_sparse"},
    {"lm_eval mbpp", "mbpp_lm_eval"},
    {"opencompass MBPP", "mbpp_opencompass"}};

// The file, plain or packed; empty: there is none.
fs::path standing(const fs::path& path) {
  for (const fs::path& file : {path, fs::path(path.string() + ".gz")}) {
    if (fs::is_regular_file(file)) return file;
  }
  return {};
}

// Empty: the verdict is one of those that the record allows.
std::string hostile(const json_reader& record) {
  const std::string wanted = record.text("verdict");
  // Memory that is used up in that time also where pages come slowly.
  const sandbox_limits limits{record.number("wall_limit_s", 0.1, 600), 512LL << 20};
  const program_result got = run_python_program(record.text("full_program"), limits);
  const std::string verdict = name_of(got.verdict);
  if (wanted == "any" ||
      ("_or_" + wanted + "_or_").find("_or_" + verdict + "_or_") != std::string::npos) {
    return "";
  }
  return record.text("id") + ": " + verdict + " (" + got.reason + "), not " + wanted;
}

std::string id_of(const json_reader& object) {
  const json_value& id = object.at("task_id");
  return id.text() ? *id.text() : std::to_string(*id.integer());
}

// The items of humaneval or mbpp in the first folder that has the file: id and what a scorer needs.
std::vector<task_item> items_of(const std::string& name, const std::vector<fs::path>& data) {
  const std::string file = name == "mbpp" ? "mbpp.jsonl" : "HumanEval.jsonl";
  for (const fs::path& root : data) {
    const fs::path path = standing(root / name / file);
    if (path.empty()) continue;
    std::vector<task_item> items;
    const std::string text = read_plain_or_gzip(path, std::size_t{1} << 28);
    for_each_object(text, path.string(), [&](const json_reader& object, std::size_t) {
      task_item& item = items.emplace_back();
      item.id = id_of(object);
      std::string check = "{\"task_id\":" + json_string(item.id);
      for (const char* key : {"entry_point", "prompt", "test", "test_list", "text"}) {
        if (object.given(key))
          check += ",\"" + std::string(key) + "\":" + json_text(object.at(key));
      }
      item.check = check + "}";
    });
    return items;
  }
  throw environment_error(name + ": there is no " + file + " in the given folders");
}

// Every way in which the harnesses read a program out of one response, and its verdict.
std::string answer(const json_reader& record, const std::vector<task_item>& items) {
  const std::string task = id_of(record);
  for (task_item item : items) {
    if (item.id != task) continue;
    for (const auto& [path, official] : *record.at("official").members()) {
      const bool* wanted = official.find("passed") ? official.find("passed")->boolean() : nullptr;
      if (wanted == nullptr) record.fail("official", "must say whether the program passed");
      item.scorer.clear();
      for (const auto& [begin, scorer] : scorer_of) {
        if (item.scorer.empty() && path.starts_with(begin)) item.scorer = scorer;
      }
      if (item.scorer.empty()) return task + ": no scorer does as " + path;
      const struct score s = score_answer(item, record.text("response"));
      if (s.exact != *wanted) {
        return task + ", " + path + ": " + (s.exact ? "passed" : s.note) + ", not " +
               (*wanted ? "passed" : "failed");
      }
    }
    return "";
  }
  return task + ": is not in the official file";
}

}  // namespace

golden_results replay_programs(const fs::path& directory, std::vector<fs::path> data) {
  golden_results replay;
  data.push_back(directory / "data");
  data.push_back(directory / ".." / "data");
  const auto judge = [&](const fs::path& file, const std::string& name,
                         const std::function<std::string(const json_reader&)>& reason) {
    golden_result result{name, 0, 0, 0, {}};
    for_each_json_line(file.string(),
                       [&](const json_reader& record, std::size_t) { result.add(reason(record)); });
    replay.files.push_back(std::move(result));
  };
  const auto missing = sandbox_missing();
  for (const char* name : {"sandbox/programs", "scorers/humaneval", "scorers/mbpp"}) {
    const fs::path file = standing(directory / (std::string(name) + ".jsonl"));
    if (file.empty()) continue;
    const std::string title = file.lexically_relative(directory).string() + ", verdicts";
    if (missing) {
      replay.not_run.push_back(title + ": needs a sandbox: " + *missing);
      continue;
    }
    if (std::string(name).starts_with("sandbox")) {
      judge(file, title, hostile);
      continue;
    }
    try {
      const auto items = items_of(fs::path(name).filename().string(), data);
      judge(file, title, [&](const json_reader& record) { return answer(record, items); });
    } catch (const error& problem) {
      replay.not_run.push_back(title + ": " + problem.what());
    }
  }
  return replay;
}

}  // namespace unmask
