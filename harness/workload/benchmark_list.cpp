// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/workload/benchmark_list.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
constexpr std::size_t largest_list = 16U << 20;
constexpr const char* place = "unmask/benchmarks/prompts";

struct lists {
  std::vector<std::pair<std::string, std::string>> harnesses;
  std::map<std::string, benchmark_data> data;
  std::vector<benchmark> all;
};

fs::path definitions() {
  const fs::path package = package_folder();
  if (package.empty()) {
    throw environment_error(std::string("NOT RUN: benchmarks need ") + place +
                            "/benchmarks.json, which is not beside this program");
  }
  return package / place;
}

benchmark_data read_data(const std::string& name, const json& object) {
  benchmark_data d;
  d.name = name;
  d.title = object.at("title");
  d.home = object.at("home");
  d.hub = object.at("hub");
  d.licence = object.at("licence");
  object.at("files").get_to(d.files);
  d.python = object.at("python");
  d.sha256 = object.value("sha256", d.sha256);
  d.tasks = object.value("tasks", d.tasks);
  d.task_folders = object.value("task_folders", d.task_folders);
  d.task_numbers = object.value("task_items", d.task_numbers);
  return d;
}

benchmark read_benchmark(const json& object, const std::map<std::string, benchmark_data>& data) {
  benchmark b;
  b.name = object.at("name");
  b.harness = object.at("harness");
  b.config = object.at("config");
  b.form = object.at("form");
  b.scorer = object.at("scorer");
  b.metric = object.at("metric");
  b.shots = object.at("shots");
  b.items = object.at("items");
  b.gen_length = object.at("gen_length");
  b.max_prompt = object.value("max_prompt_tokens", 0);
  b.cut_middle = object.value("cut", "") == "middle";
  b.choices = object.value("choices", false);
  b.ours = object.value("ours", "");
  b.reads = object.at("reads");
  b.example_files = object.value("example_files", b.example_files);
  b.data = &data.at(object.at("dataset"));
  return b;
}

const lists& known() {
  static const lists all = [] {
    const fs::path file = definitions() / "benchmarks.json";
    lists l;
    try {
      const json object = json::parse(read_file(file, largest_list));
      for (const auto& [id, version] : object.at("harnesses").items()) {
        l.harnesses.emplace_back(id, version);
      }
      for (const auto& [name, entry] : object.at("datasets").items()) {
        l.data.emplace(name, read_data(name, entry));
      }
      for (const json& entry : object.at("benchmarks")) {
        l.all.push_back(read_benchmark(entry, l.data));
      }
    } catch (const std::exception& problem) {
      throw environment_error(file.string() + ": " + problem.what());
    }
    return l;
  }();
  return all;
}

// Whether a name, which may hold a *, stands for this one.
bool stands_for(const std::string& pattern, const std::string& name) {
  const std::size_t star = pattern.find('*');
  if (star == std::string::npos) return pattern == name;
  const std::string head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  return name.size() >= head.size() + tail.size() && name.starts_with(head) && name.ends_with(tail);
}

// Whether a folder has the file as it stands, packed or cut. An archive stands for names in folders;
// what it lacks the package says.
bool has_file(const fs::path& folder, const std::string& name) {
  const fs::path whole = folder / name;
  const std::string file = whole.filename().string();
  const std::string cut = whole.stem().string() + ".first*" + whole.extension().string() + ".gz";
  for (const fs::path& entry : entries_of(whole.parent_path())) {
    const std::string there = entry.filename().string();
    if (stands_for(file, there) || stands_for(file + ".gz", there) || stands_for(cut, there)) {
      return true;
    }
  }
  return name.find('/') != std::string::npos && !entries_of(folder, ".zip").empty();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

}  // namespace

bool benchmark::counts_tokens() const {
  return data->name == "needlebench" || data->name == "sharegpt" || data->name == "wildchat" ||
         data->name == "lmsys_chat";
}

const std::vector<benchmark>& benchmarks() {
  return known().all;
}

std::vector<const benchmark_data*> benchmark_data_sets() {
  std::vector<const benchmark_data*> all;
  for (const auto& [name, data] : known().data) all.push_back(&data);
  return all;
}

const std::vector<std::pair<std::string, std::string>>& benchmark_harnesses() {
  return known().harnesses;
}

const std::vector<std::string>& prompt_forms() {
  static const std::vector<std::string> forms = {"raw", "bos", "one-turn", "chat"};
  return forms;
}

std::string harness_version(const std::string& harness) {
  std::vector<std::string> ids;
  for (const auto& [id, version] : known().harnesses) {
    if (id == harness) return version;
    ids.push_back(id);
  }
  throw usage_error("there is no harness '" + harness + "'; they are " + joined(ids, ", "));
}

const benchmark& find_benchmark(const std::string& name, const std::string& harness) {
  const std::size_t slash = harness.find('/');
  const std::string id = harness.substr(0, slash);
  const std::string config = slash == std::string::npos ? "" : harness.substr(slash + 1);
  if (!id.empty()) harness_version(id);
  std::vector<std::string> others, names;
  for (const benchmark& b : benchmarks()) {
    if (std::ranges::find(names, b.name) == names.end()) names.push_back(b.name);
    if (b.name != name) continue;
    if ((id.empty() || b.harness == id) && (config.empty() || b.config == config)) return b;
    others.push_back(b.harness + "/" + b.config);
  }
  if (others.empty()) throw usage_error(unknown_name("benchmark", name, names));
  throw usage_error("the benchmark " + name + " has no harness '" + harness + "'; it has " +
                    joined(others, ", "));
}

std::int64_t declared_items(const benchmark& of, const std::string& task) {
  const auto found = of.data->task_numbers.find(task);
  if (found != of.data->task_numbers.end()) return found->second.first;
  const auto groups = static_cast<std::int64_t>(std::max<std::size_t>(of.data->tasks.size(), 1));
  return task.empty() ? of.items : (of.items + groups - 1) / groups;
}

int declared_length(const benchmark& of, const std::string& task) {
  const auto found = of.data->task_numbers.find(task);
  if (found != of.data->task_numbers.end()) return found->second.second;
  int longest = of.gen_length;
  for (const auto& [group, numbers] : of.data->task_numbers) {
    longest = std::max(longest, numbers.second);
  }
  return longest;
}

std::vector<std::string> missing_files(const benchmark& of, const std::string& task, int shots,
                                       const std::vector<fs::path>& folders) {
  std::vector<std::string> splits = of.reads;
  if ((shots < 0 ? of.shots : shots) > 0) {
    splits.insert(splits.end(), of.example_files.begin(), of.example_files.end());
  }
  std::vector<std::string> tasks = of.data->tasks;
  if (!task.empty()) tasks = {task};
  if (tasks.empty()) tasks = {""};
  std::vector<std::string> missing;
  for (const std::string& split : splits) {
    for (const std::string& one : tasks) {
      const auto folder = of.data->task_folders.find(one);
      const std::string& name = folder == of.data->task_folders.end() ? one : folder->second;
      const std::vector<std::string>& files = of.data->files.at(split);
      const bool there = std::ranges::any_of(files, [&](const std::string& file) {
        return std::ranges::any_of(folders, [&](const fs::path& root) {
          const std::string wanted = replaced(file, "{task}", name);
          return has_file(root / of.data->name, wanted) || has_file(root, wanted);
        });
      });
      const std::string first = replaced(files.front(), "{task}", name);
      if (!there && std::ranges::find(missing, first) == missing.end()) missing.push_back(first);
    }
  }
  return missing;
}

std::string benchmark_definitions_hash() {
  static const std::string hash = [] {
    std::string all;
    const fs::path folder = definitions();
    for (const fs::path& where : {folder, folder / "fewshot"}) {
      for (const char* ending : {".json", ".py"}) {
        for (const fs::path& file : entries_of(where, ending)) {
          all += sha256_hex(read_file(file, largest_list));
        }
      }
    }
    return sha256_hex(all);
  }();
  return hash;
}

}  // namespace unmask
