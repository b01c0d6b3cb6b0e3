// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/benchmark_prompts.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/nearest.h"
#include "harness/base/package.h"
#include "harness/plan/locate.h"
#include "harness/plan/spec.h"
#include "harness/workload/benchmark_list.h"
#include "harness/workload/benchmark_tasks.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t largest_data = std::size_t{8} << 30;
constexpr std::size_t shown_digits = 16;

std::string digest_of(const fs::path& file) {
  return remembered_hash(file, user_hash_memory(),
                         [&] { return sha256_hex(read_file(file, largest_data)); });
}

// Where tasks files that nobody placed are kept.
fs::path cache_folder() {
  const fs::path memory = user_hash_memory().file;
  if (!memory.empty()) return memory.parent_path() / "tasks";
  return temporary_folder() / ("unmask-tasks-" + std::to_string(getuid()));
}

// $UNMASK_TASKS, whose folders are separated by colons.
std::vector<fs::path> named_folders() {
  std::vector<fs::path> folders;
  const char* given = std::getenv("UNMASK_TASKS");
  std::string list = given == nullptr ? "" : given;
  for (std::size_t colon = 0; !list.empty(); list.erase(0, colon)) {
    colon = std::min(list.find(':'), list.size());
    if (colon > 0) folders.emplace_back(list.substr(0, colon));
    if (colon < list.size()) ++colon;
  }
  return folders;
}

std::string plain_name(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.') c = '-';
  }
  return text;
}

// What the package is asked for, but for data and output.
std::vector<std::string> asked(const benchmark_request& r, const benchmark& b,
                               const fs::path& tokenizer) {
  std::vector<std::string> words = {r.name, "--harness", b.harness + "/" + b.config};
  const auto add = [&](const char* option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  if (!r.task.empty()) add("--task", r.task);
  if (!r.prompt.empty()) add("--prompt", r.prompt);
  if (r.shots >= 0) add("--shots", std::to_string(r.shots));
  if (!r.system.empty()) words.emplace_back("--no-system");
  if (r.world > 1) add("--world", std::to_string(r.world));
  if (r.rank >= 0) add("--rank", std::to_string(r.rank));
  if (r.max_prompt_tokens >= 0) add("--max-prompt-tokens", std::to_string(r.max_prompt_tokens));
  if (b.counts_tokens()) add("--tokenizer", tokenizer.string());
  return words;
}

// Whether the file was made of the data that lies here; true where none of it does.
bool of_these_data(const fs::path& file, const std::vector<fs::path>& folders) {
  const tasks_head head = read_benchmark_tasks(file, true).head;
  for (const auto& [name, hash] : head.data) {
    const auto root = std::ranges::find_if(
        folders, [&, file_name = name](const fs::path& f) { return is_file(f / file_name); });
    if (root != folders.end() && digest_of(*root / name) != hash) return false;
  }
  return true;
}

}  // namespace

std::vector<fs::path> folders_of(const benchmark_request& r) {
  std::vector<fs::path> folders = dataset_folders();
  if (!r.path.empty()) folders.insert(folders.begin(), r.path);
  return folders;
}

std::string tasks_file_name(const benchmark_request& r, const fs::path& tokenizer) {
  const benchmark& b = find_benchmark(r.name, r.harness);
  std::vector<std::string> words = asked(r, b, "");
  if (b.counts_tokens()) {
    words.push_back(is_file(tokenizer) ? digest_of(tokenizer) : "no tokenizer");
  }
  const std::string hash =
      sha256_hex(joined(words, "\n") + "\n" + benchmark_definitions_hash()).substr(0, shown_digits);
  std::vector<std::string> parts = {b.name, b.harness, b.config};
  if (!r.task.empty()) parts.push_back(r.task);
  parts.push_back(hash);
  return plain_name(joined(parts, "-")) + ".jsonl";
}

std::optional<fs::path> find_tasks_file(const benchmark_request& r, const fs::path& tokenizer) {
  std::vector<fs::path> places = named_folders();
  places.insert(places.begin(), r.base / "tasks");
  places.emplace_back("tasks");
  places.push_back(cache_folder());
  const std::string name = tasks_file_name(r, tokenizer);
  const std::vector<fs::path> folders = folders_of(r);
  for (const fs::path& place : places) {
    if (is_file(place / name) && of_these_data(place / name, folders)) return place / name;
  }
  return std::nullopt;
}

std::string lacks_prompts(const benchmark_request& r, const fs::path& tokenizer) {
  if (find_tasks_file(r, tokenizer)) return "";
  const benchmark& b = find_benchmark(r.name, r.harness);
  const std::vector<fs::path> folders = folders_of(r);
  std::vector<std::string> missing = missing_files(b, r.task, static_cast<int>(r.shots), folders);
  if (missing.empty()) return "";
  constexpr std::size_t most_named = 4;
  const std::size_t more = missing.size() - std::min(missing.size(), most_named);
  missing.resize(missing.size() - more);
  std::vector<std::string> places;
  for (const fs::path& folder : folders) places.push_back((folder / b.data->name).string());
  return "no " + joined(missing, ", ") +
         (more > 0 ? " and " + std::to_string(more) + " more" : "") + " in " +
         (places.empty() ? "$UNMASK_DATASETS, which names no folder" : joined(places, " or ")) +
         "; `unmask list benchmarks " + b.name + "` says where they are published";
}

fs::path write_tasks_file(const benchmark_request& r, const fs::path& tokenizer,
                          const fs::path& folder) {
  const std::string beforehand =
      ". Write them on a machine that has it with: unmask prompts FILE.toml -o tasks/";
  if (const std::string lack = lacks_prompts(r, tokenizer); !lack.empty()) {
    throw environment_error("NOT RUN: needs benchmark:" + r.name + " (" + lack + ")");
  }
  const benchmark& b = find_benchmark(r.name, r.harness);
  const fs::path file = folder / tasks_file_name(r, tokenizer);
  std::vector<std::string> command = {"prompts"};
  std::ranges::copy(asked(r, b, tokenizer), std::back_inserter(command));
  for (const fs::path& data : folders_of(r)) {
    command.emplace_back("--data");
    command.push_back(data.string());
  }
  command.emplace_back("--quiet");
  command.emplace_back("-o");
  command.push_back(file.string());
  package_end end;
  try {
    end = run_package_for_reason(command);
  } catch (const error& problem) {
    throw environment_error(problem.what() + beforehand);
  }
  if (end.status == 0) return file;
  throw error(
      end.status == static_cast<int>(exit_code::usage) ? exit_code::usage : exit_code::environment,
      "NOT RUN: cannot write the prompts of " + r.name + ": " + end.reason + beforehand);
}

fs::path tasks_file(const benchmark_request& r, const fs::path& tokenizer) {
  if (const auto found = find_tasks_file(r, tokenizer)) return *found;
  return write_tasks_file(r, tokenizer, cache_folder());
}

std::vector<prompts_need> prompts_of(const experiment_spec& spec) {
  std::vector<prompts_need> all;
  std::set<std::string> seen;
  for (const workload_entry& w : spec.workloads) {
    if (w.benchmark.name.empty()) continue;
    for (const model_entry& model : spec.models) {
      const bool asked =
          w.models.empty() || std::ranges::any_of(w.models, [&](const std::string& wanted) {
            return wanted == model.name || wanted == model.role;
          });
      const fs::path tokenizer = model.path / "tokenizer.json";
      if (asked && seen.insert(tasks_file_name(w.benchmark, tokenizer)).second) {
        all.push_back({w.benchmark, tokenizer});
      }
    }
  }
  return all;
}

void prepare_prompts(const experiment_spec& spec) {
  for (const prompts_need& need : prompts_of(spec)) tasks_file(need.request, need.tokenizer);
}

}  // namespace unmask
