// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/benchmark_workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/plan/spec.h"
#include "harness/workload/benchmark_list.h"

namespace unmask {

namespace fs = std::filesystem;

void check_benchmark(const std::string& where, benchmark_request& b) {
  try {
    const benchmark& found = find_benchmark(b.name, b.harness);
    if (!b.prompt.empty()) find_known("form of a prompt", b.prompt, prompt_forms(), "`prompt`");
    const bool choices = found.choices;
    for (const auto& [key, value] : {std::pair("thinking", b.thinking), {"system", b.system}}) {
      if (value.empty() || value == "off") continue;
      throw usage_error("`" + std::string(key) + "` is '" + value + "' but can only be \"off\"");
    }
    if (b.rank >= b.world) throw usage_error("`rank` must be below `world`");
    if (!b.task.empty() &&
        std::ranges::find(found.data->tasks, b.task) == found.data->tasks.end()) {
      throw usage_error("the benchmark " + found.name + " has no task '" + b.task + "'");
    }
    if (b.kind != "generate" && b.kind != "likelihood") {
      throw usage_error("`kind` is '" + b.kind + "' but must be generate or likelihood");
    }
    if (b.kind == "likelihood" && !choices) {
      throw usage_error(
          "the benchmark " + found.name + " (" + found.harness + "/" + found.config +
          ") has no choices; kind likelihood needs mmlu, arc_c, piqa or gpqa of harness LM");
    }
    if (choices) b.kind = "likelihood";
  } catch (const error& problem) {
    throw usage_error(where + ": " + problem.what());
  }
}

likelihood_draws draws_of(const benchmark_request& r, bool dream) {
  likelihood_draws usual = {128, dream ? 32 : 8};
  if (r.name == "mmlu" && !dream) usual = {1, 1};
  return {r.mc_num > 0 ? r.mc_num : usual.samples, r.mc_batch > 0 ? r.mc_batch : usual.rows};
}

std::string canonical_benchmark(const benchmark_request& b) {
  auto out = keys_in_ids<nlohmann::json>(b);
  const benchmark& found = find_benchmark(b.name, b.harness);
  out["name"] = b.name;
  out["harness"] = found.harness + "/" + found.config;
  if (b.world > 1) out["world"] = {b.rank, b.world};
  return out.dump();
}

benchmark_tasks chosen_tasks(const workload_entry& entry, const fs::path& model) {
  benchmark_tasks all = read_benchmark_tasks(tasks_file(entry.benchmark, model / "tokenizer.json"));
  std::vector<task_item> asked;
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < all.items.size(); ++i) {
    asked.push_back(all.items[i].task);
    index_of[asked.back().id] = i;
  }
  benchmark_tasks chosen{all.head, {}};
  for (const task_item& item : select(std::move(asked), entry.items)) {
    chosen.items.push_back(all.items[index_of.at(item.id)]);
  }
  return chosen;
}

std::string hash_of_benchmark(const benchmark_tasks& tasks) {
  std::vector<task_item> items;
  for (const benchmark_item& item : tasks.items) items.push_back(item.task);
  return hash_of_tasks(items);
}

namespace {

benchmark_summary summary_of_tasks(const benchmark_tasks& tasks, std::int64_t trials) {
  benchmark_summary summary;
  const auto count = static_cast<double>(tasks.items.size());
  summary.hash = hash_of_benchmark(tasks);
  summary.items = static_cast<std::int64_t>(tasks.items.size()) * trials;
  for (const benchmark_item& item : tasks.items) {
    std::size_t bytes = item.task.prompt.size();
    for (const chat_message& m : item.task.messages) bytes += m.content.size();
    summary.prompt_bytes += static_cast<double>(bytes) / count;
    summary.gen_length += item.task.gen_length / count;
    summary.continuations += static_cast<std::int64_t>(item.task.continuations.size());
  }
  return summary;
}

}  // namespace

std::optional<benchmark_summary> summary_of(const workload_entry& entry, const fs::path& model) {
  if (!find_tasks_file(entry.benchmark, model / "tokenizer.json")) return std::nullopt;
  return summary_of_tasks(chosen_tasks(entry, model), entry.benchmark.trials);
}

}  // namespace unmask
