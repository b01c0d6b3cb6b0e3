// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/benchmark_workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/nearest.h"
#include "harness/base/toml_reader.h"
#include "harness/measure/execute_parts.h"
#include "harness/model/chat_template.h"
#include "harness/plan/benchmark_prompts.h"
#include "harness/workload/benchmark_list.h"
#include "harness/workload/benchmark_tasks.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

// What the harness hands to the model, as one text.
std::string text_of(const task_item& item, const loaded_model& model, bool thinking_off) {
  if (item.bos) return "<|beginoftext|>" + item.prompt;
  if (item.messages.empty()) return item.prompt;
  return model.chat->render(item.messages, thinking_off);
}

// A raw prompt gets the tokens around it that transformers' tokenizer adds; one with BOS has them.
std::vector<std::int32_t> tokens_of(const task_item& item, const loaded_model& model,
                                    bool thinking_off) {
  const std::string text = text_of(item, model, thinking_off);
  const bool raw = item.messages.empty() && !item.bos;
  return raw ? model.tokens->encode_raw(text) : model.tokens->encode(text);
}

// Middle cut of OC-U: of more than `most` tokens the first and the last half; cut on the left of
// the others: the last `most` tokens. Zero: no limit.
std::vector<std::int32_t> cut(std::vector<std::int32_t> ids, std::size_t most, bool middle) {
  if (most == 0 || ids.size() <= most) return ids;
  const auto all = ids.begin();
  const auto size = static_cast<std::ptrdiff_t>(most);
  if (middle) {
    ids.erase(all + size / 2, ids.end() - size / 2);
  } else {
    ids.erase(all, ids.end() - size);
  }
  return ids;
}

// Tokens of an item's prompt within the limit: OpenCompass drops examples from the end, then the
// tokenizer cuts. The item becomes what was asked.
std::vector<std::int32_t> fitted(benchmark_item item, std::size_t most, bool cut_middle,
                                 const loaded_model& model, bool thinking_off, task_item& asked) {
  asked = std::move(item.task);
  std::vector<std::int32_t> ids = tokens_of(asked, model, thinking_off);
  const std::size_t fewer = std::max(item.shorter_prompts.size(), item.shorter_messages.size());
  for (std::size_t i = 0; i < fewer && most > 0 && ids.size() > most; ++i) {
    if (!item.shorter_prompts.empty()) {
      asked.prompt = item.shorter_prompts[i];
    } else {
      asked.messages = item.shorter_messages[i];
    }
    ids = tokens_of(asked, model, thinking_off);
  }
  return cut(std::move(ids), most, cut_middle);
}

}  // namespace

void read_benchmark_keys(toml_reader& r, const fs::path& file, benchmark_request& b) {
  r.text("harness", b.harness);
  r.text("task", b.task);
  r.text("prompt", b.prompt);
  r.text("thinking", b.thinking);
  r.text("system", b.system);
  r.text("path", b.path);
  r.text("kind", b.kind);
  r.integer("shots", b.shots, 0, 1000);
  r.integer("max_prompt_tokens", b.max_prompt_tokens, 0, 1 << 24);
  r.integer("trials", b.trials, 1, 1000);
  r.integer("world", b.world, 1, 1 << 20);
  r.integer("rank", b.rank, 0, 1 << 20);
  r.integer("mc_num", b.mc_num, 1, 1 << 20);
  r.integer("mc_batch", b.mc_batch, 1, 1 << 12);
  r.real("guidance", b.guidance, 0, 100);
  b.base = file.parent_path();
  benchmark_request nothing;
  nothing.base = b.base;
  if (r.find("benchmark") == nullptr && b != nothing) {
    throw usage_error(r.where() +
                      ": harness, task, prompt, path, kind, shots, trials and mc_num belong to a "
                      "`benchmark`; name one");
  }
}

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

std::string canonical_benchmark(const benchmark_request& b) {
  nlohmann::json out = {{"name", b.name}, {"kind", b.kind}, {"trials", b.trials}};
  const benchmark& found = find_benchmark(b.name, b.harness);
  out["harness"] = found.harness + "/" + found.config;
  if (!b.task.empty()) out["task"] = b.task;
  if (!b.prompt.empty()) out["prompt"] = b.prompt;
  if (!b.thinking.empty()) out["thinking"] = b.thinking;
  if (!b.system.empty()) out["system"] = b.system;
  if (b.shots >= 0) out["shots"] = b.shots;
  if (b.max_prompt_tokens >= 0) out["max_prompt_tokens"] = b.max_prompt_tokens;
  if (b.mc_num > 0) out["mc_num"] = b.mc_num;
  if (b.mc_batch > 0) out["mc_batch"] = b.mc_batch;
  if (b.guidance > 0) out["guidance"] = b.guidance;
  if (b.world > 1) out["world"] = {b.rank, b.world};
  return out.dump();
}

namespace {

// The items that an entry chooses, and what holds for all.
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

std::string hash_of(const benchmark_tasks& tasks) {
  std::vector<task_item> items;
  for (const benchmark_item& item : tasks.items) items.push_back(item.task);
  return hash_of_tasks(items);
}

benchmark_summary summary_of_tasks(const benchmark_tasks& tasks, std::int64_t trials) {
  benchmark_summary summary;
  const auto count = static_cast<double>(tasks.items.size());
  summary.hash = hash_of(tasks);
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

void fill_benchmark(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                    const loaded_model& model) {
  const benchmark_request& r = entry.benchmark;
  const benchmark& found = find_benchmark(r.name, r.harness);
  const benchmark_tasks tasks = chosen_tasks(entry, model.directory);
  const auto most =
      static_cast<std::size_t>(r.max_prompt_tokens >= 0 ? r.max_prompt_tokens : found.max_prompt);
  w.record = {entry.name, hash_of(tasks), static_cast<std::int64_t>(tasks.items.size())};
  std::vector<conversation> chats;  // rendered at once and remembered
  for (const benchmark_item& item : tasks.items) {
    if (!item.task.messages.empty()) chats.push_back(item.task.messages);
    chats.insert(chats.end(), item.shorter_messages.begin(), item.shorter_messages.end());
  }
  if (!chats.empty()) model.chat->render(chats, r.thinking == "off");
  for (std::int64_t trial = 0; trial < r.trials; ++trial) {
    for (const benchmark_item& chosen : tasks.items) {
      sequence_request request;
      task_item item;
      request.prompt = fitted(chosen, most, found.cut_middle, model, r.thinking == "off", item);
      request.gen_length = generated_length(entry, run, item);
      request.seed = request_seed(run, w.requests.size());
      if (r.trials > 1) item.id += "#" + std::to_string(trial);
      item.prompt = text_of(item, model, r.thinking == "off");
      w.requests.push_back(std::move(request));
      w.items.push_back(std::move(item));
    }
  }
  w.record.benchmark = {
      found.harness, tasks.head.version, found.config,     tasks.head.form,
      found.scorer,  found.metric,       tasks.head.shots, declared_items(found, r.task),
      r.trials};
}

}  // namespace unmask
