// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/scorers/replay.h"

#include <cmath>
#include <map>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"
#include "harness/base/python_text.h"
#include "harness/workload/scorers/jieba.h"
#include "harness/workload/scorers/replay_cases.h"

namespace unmask::scorers {
namespace fs = std::filesystem;
namespace {

constexpr double tolerance = 1e-6;

std::string shown(double value) {
  return std::to_string(value);
}

std::string shown(const std::vector<std::string>& words) {
  return joined(words, " | ");
}

double number_in(const json_reader& where, std::string_view key, const json_value& value) {
  if (const std::int64_t* whole = value.integer()) return static_cast<double>(*whole);
  if (const double* real = std::get_if<double>(&value.data)) return *real;
  if (const bool* flag = value.boolean()) return *flag ? 1 : 0;
  where.fail(key, "must be a number");
}

bool flag_in(const json_reader& where, std::string_view key, const json_value& value) {
  return number_in(where, key, value) != 0;
}

std::vector<std::string> words_in(const json_reader& object, const char* key) {
  std::vector<std::string> words;
  const json_value::array* items = object.at(key).items();
  if (items == nullptr) object.fail(key, "must be an array of strings");
  for (const json_value& item : *items) words.push_back(item.text() ? *item.text() : "");
  return words;
}

golden_result replay_jieba(const fs::path& path) {
  golden_result result;
  result.file = "zh/" + path.filename().string();
  for_each_json_line(path.string(), [&](const json_reader& object, std::size_t number) {
    std::string reason;
    for (const bool hmm : {true, false}) {
      const char* key = hmm ? "cut (cut_all=False, HMM)" : "cut_no_hmm";
      const auto ours = jieba_cut(object.text("text"), hmm), wanted = words_in(object, key);
      if (ours == wanted || !reason.empty()) continue;
      reason = "line " + std::to_string(number) + ": " + key + " is " + shown(ours) + ", not " +
               shown(wanted);
    }
    result.add(reason);
  });
  return result;
}

golden_result replay_file(const fs::path& path, const std::string& name) {
  golden_result result;
  result.file = "scorers/" + path.filename().string();
  const replay_function replay = find_replay(name);
  if (replay == nullptr) {
    result.add("no scorer replays this file");
    return result;
  }
  for_each_json_line(path.string(), [&](const json_reader& object, std::size_t number) {
    golden_case c(object);
    replay(c);
    if (c.is_undecided()) ++result.undecided;
    result.add(c.difference().empty() ? ""
                                      : "line " + std::to_string(number) + ": " + c.difference());
  });
  return result;
}

// Names without .jsonl or .jsonl.gz of the files in a folder; empty when there is none.
std::map<std::string, fs::path> json_files(const fs::path& folder) {
  std::map<std::string, fs::path> files;
  if (!fs::is_directory(folder)) return files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const std::size_t end = name.find(".jsonl");
    if (end != std::string::npos) files.emplace(name.substr(0, end), entry.path());
  }
  return files;
}

}  // namespace

golden_case::golden_case(const json_reader& object)
    : item_(object), official_(object.given("official") ? object.child("official") : object) {}

std::vector<std::string> golden_case::texts(const char* key) const {
  return item_.given(key) ? words_in(item_, key) : std::vector<std::string>{};
}

void golden_case::differs(std::string_view key, const std::string& ours,
                          const std::string& wanted) {
  if (difference_.empty()) {
    difference_ = std::string(key) + " is " + py::in_ticks(ours) + ", not " + py::in_ticks(wanted);
  }
}

void golden_case::undecided(std::string_view what) {
  undecided_ = true;
  differs(what, "undecided", "a verdict");
}

void golden_case::text(const json_reader& where, std::string_view key, std::string_view ours) {
  if (where.text(key) != ours) differs(key, std::string(ours), where.text(key));
}

void golden_case::flag(const json_reader& where, std::string_view key, bool ours) {
  const bool wanted = flag_in(where, key, where.at(key));
  if (wanted != ours) differs(key, ours ? "true" : "false", wanted ? "true" : "false");
}

void golden_case::number(const json_reader& where, std::string_view key, double ours) {
  const double wanted = number_in(where, key, where.at(key));
  if (!(std::abs(wanted - ours) <= tolerance)) differs(key, shown(ours), shown(wanted));
}

void golden_case::numbers(const json_reader& where, std::string_view key,
                          const std::vector<double>& ours) {
  const json_value::array* wanted = where.at(key).items();
  if (wanted == nullptr || wanted->size() != ours.size()) where.fail(key, "must be numbers");
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double value = number_in(where, key, (*wanted)[i]);
    if (!(std::abs(value - ours[i]) <= tolerance)) differs(key, shown(ours[i]), shown(value));
  }
}

void golden_case::flags(const json_reader& where, std::string_view key,
                        const std::vector<bool>& ours) {
  const json_value::array* wanted = where.at(key).items();
  if (wanted == nullptr || wanted->size() != ours.size()) where.fail(key, "must be booleans");
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (flag_in(where, key, (*wanted)[i]) != ours[i]) {
      differs(std::string(key) + "[" + std::to_string(i) + "]", ours[i] ? "true" : "false",
              ours[i] ? "false" : "true");
    }
  }
}

replay_function find_replay(std::string_view file) {
  const replay_function math = find_math_replay(file);
  return math != nullptr ? math : find_text_replay(file);
}

std::vector<golden_result> replay_scorers(const fs::path& directory) {
  std::vector<golden_result> results;
  for (const auto& [name, path] : json_files(directory / "scorers")) {
    results.push_back(replay_file(path, name));
  }
  for (const auto& [name, path] : json_files(directory / "zh")) {
    if (name == "jieba_cut") results.push_back(replay_jieba(path));
  }
  return results;
}

}  // namespace unmask::scorers
