// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/base/nearest.h"
#include "harness/workload/benchmarks/declare.h"

namespace unmask {
namespace {

const std::vector<std::pair<std::string, std::string>> harnesses = {
    {"LM", "lm-evaluation-harness 0.4.8"},
    {"OC-F", "OpenCompass 0.5.1.post1 in sands-lab/FOCUS 277f1d15"},
    {"OC-S", "OpenCompass 0.4.2 with the overlay of OpenMOSS/Sparse-dLLM 3fd8986"},
    {"OC-U", "OpenCompass 0.4.2 in Relaxed-System-Lab/UltraLLaDA fb08bd2"},
    {"OC-L", "OpenCompass 0.4.2 in ML-GSAI/LLaDA b7e6c35"},
    {"own", "no harness of the papers; our choice"}};

const std::vector<std::pair<prompt_form, const char*>> forms = {{prompt_form::raw, "raw"},
                                                                {prompt_form::bos, "bos"},
                                                                {prompt_form::one_turn, "one-turn"},
                                                                {prompt_form::chat, "chat"}};

std::vector<std::string> names_of_benchmarks() {
  std::vector<std::string> names;
  for (const benchmark& b : benchmarks()) {
    if (std::ranges::find(names, b.name) == names.end()) names.push_back(b.name);
  }
  return names;
}

}  // namespace

const char* name_of(prompt_form form) {
  return std::ranges::find(forms, form, [](const auto& f) { return f.first; })->second;
}

prompt_form parse_prompt_form(const std::string& text, const std::string& where) {
  const auto known = names_in(forms, [](const auto& f) { return f.second; });
  return forms[find_known("form of a prompt", text, known, where)].first;
}

std::string harness_version(const std::string& harness) {
  for (const auto& [id, version] : harnesses) {
    if (id == harness) return version;
  }
  throw usage_error("there is no harness '" + harness +
                    "'; they are LM, OC-F, OC-S, OC-U and OC-L");
}

const std::vector<benchmark>& benchmarks() {
  static const std::vector<benchmark> all = [] {
    std::vector<benchmark> list;
    for (auto* declare :
         {declared::gsm8k, declared::math, declared::mmlu, declared::arc_c, declared::piqa,
          declared::gpqa, declared::humaneval, declared::mbpp, declared::ifeval,
          declared::longbench, declared::cnn_dm, declared::needle_map, declared::conversations}) {
      for (benchmark& b : declare()) {
        if (b.folder.empty()) b.folder = b.name;
        list.push_back(std::move(b));
      }
    }
    return list;
  }();
  return all;
}

const benchmark& find_benchmark(const std::string& name, const std::string& harness) {
  const std::size_t slash = harness.find('/');
  const std::string id = harness.substr(0, slash);
  const std::string config = slash == std::string::npos ? "" : harness.substr(slash + 1);
  if (!id.empty()) harness_version(id);
  std::string others;
  for (const benchmark& b : benchmarks()) {
    if (b.name != name) continue;
    if ((id.empty() || b.harness == id) && (config.empty() || b.config == config)) return b;
    others += (others.empty() ? "" : ", ") + b.harness + "/" + b.config;
  }
  if (others.empty()) throw usage_error(unknown_name("benchmark", name, names_of_benchmarks()));
  throw usage_error("the benchmark " + name + " has no harness '" + harness + "'; it has " +
                    others);
}

std::int64_t declared_items(const benchmark& of, const std::string& task) {
  const auto found = of.by_group.find(task);
  if (found != of.by_group.end()) return found->second.first;
  const auto groups = static_cast<std::int64_t>(std::max<std::size_t>(of.groups.size(), 1));
  return task.empty() ? of.items : (of.items + groups - 1) / groups;
}

int declared_length(const benchmark& of, const std::string& task) {
  const auto found = of.by_group.find(task);
  if (found != of.by_group.end()) return found->second.second;
  int longest = of.gen_length;
  for (const auto& [group, numbers] : of.by_group) longest = std::max(longest, numbers.second);
  return longest;
}

benchmark declared::declared_as(const char* name, const char* harness, const char* config) {
  benchmark b;
  b.name = name;
  b.harness = harness;
  b.config = config;
  b.metric = "accuracy";
  if (b.harness == "OC-F" || b.harness == "OC-L") b.form = prompt_form::chat;
  if (b.harness == "OC-F") b.gen_length = 1024;
  if (b.harness == "OC-S") b.gen_length = 256;
  if (b.harness == "OC-S") b.max_prompt = 2048;
  return b;
}

void declared::set_options(source_item& item, std::vector<std::string> options, std::size_t right) {
  const std::string letters = std::string("ABCDEFGHIJ").substr(0, options.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    item.fields[letters.substr(i, 1)] = options[i];
  }
  item.right = static_cast<int>(right);
  item.answer = letters.at(right);
  item.fields["right_choice"] = options.at(right);
  item.fields["answer"] = item.answer;
  item.check =
      json_object({{"answer", json_string(item.answer)}, {"options", json_string(letters)}});
  item.choices = std::move(options);
}

std::vector<std::vector<std::string>> declared::csv_columns(const official_text& file,
                                                            const std::vector<std::string>& names) {
  std::vector<std::vector<std::string>> rows = csv_rows(file);
  if (rows.empty()) throw environment_error(file.name + ": is empty");
  std::vector<std::size_t> columns;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(rows.front(), name);
    if (found == rows.front().end()) {
      throw environment_error(file.name + ": has no column \"" + name + "\"");
    }
    columns.push_back(static_cast<std::size_t>(found - rows.front().begin()));
  }
  const std::size_t widest = std::ranges::max(columns);
  rows.erase(rows.begin());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() <= widest) {
      throw environment_error(file.name + ", row " + std::to_string(i + 1) + ": is cut off");
    }
    std::vector<std::string> chosen;
    for (const std::size_t column : columns) chosen.push_back(rows[i][column]);
    rows[i] = std::move(chosen);
  }
  return rows;
}

std::string declared::json_object(
    std::initializer_list<std::pair<std::string, std::string>> members) {
  std::string text;
  for (const auto& [key, value] : members) {
    text += (text.empty() ? "" : ",") + json_string(key) + ":" + value;
  }
  return "{" + text + "}";
}

std::string declared::json_strings(const std::vector<std::string>& texts) {
  std::string list;
  for (const std::string& text : texts) list += (list.empty() ? "" : ",") + json_string(text);
  return "[" + list + "]";
}

std::vector<std::string> declared::texts_of(const json_reader& object, const std::string& key) {
  const json_value::array* list = object.at(key).items();
  if (list == nullptr) object.fail(key, "must be an array of strings");
  std::vector<std::string> texts;
  for (const json_value& entry : *list) {
    if (entry.text() == nullptr) object.fail(key, "must be an array of strings");
    texts.push_back(*entry.text());
  }
  return texts;
}

}  // namespace unmask
