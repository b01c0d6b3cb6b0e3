// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/benchmark_workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/toml_reader.h"
#include "harness/experiment/execute_parts.h"
#include "harness/experiment/locate.h"
#include "harness/model/chat_template.h"
#include "harness/workload/benchmarks/benchmark.h"
#include "harness/workload/scorer.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

// The folder of examples that the harnesses write out.
fs::path examples_folder(const fs::path& start) {
  return find_embedded("data/fewshot", start).value_or(shipped_experiments() / "data/fewshot");
}

benchmark_options options_of(const benchmark_request& r) {
  benchmark_options o;
  o.shots = static_cast<int>(r.shots);
  o.group = r.task;
  o.form = r.prompt;
  o.system = r.system.empty();
  o.world = r.world;
  o.rank = r.rank;
  o.examples = examples_folder(r.base);
  return o;
}

std::vector<fs::path> folders_of(const benchmark_request& r) {
  std::vector<fs::path> folders = dataset_folders();
  if (!r.path.empty()) folders.insert(folders.begin(), r.base / r.path);
  return folders;
}

// What the harness hands to the model, as one text.
std::string text_of(const task_item& item, const loaded_model& model, bool thinking_off) {
  if (item.bos) return "<|beginoftext|>" + item.prompt;
  if (item.messages.empty()) return item.prompt;
  return apply_chat_template(chat_format_of(model.config, *model.tokens), item.messages, true,
                             thinking_off);
}

// Tokens of an item's prompt within the limit: OpenCompass drops examples from the end, then the
// tokenizer cuts. `item` becomes what was asked.
std::vector<std::int32_t> fitted(const benchmark_set& set, std::size_t index, std::size_t most,
                                 const loaded_model& model, bool thinking_off, task_item& item) {
  std::vector<std::int32_t> ids = model.tokens->encode(text_of(item, model, thinking_off));
  const bool drops = set.of().harness.starts_with("OC-");
  for (int shots = set.shots(); drops && shots > 0 && most > 0 && ids.size() > most;) {
    item = set.item(index, --shots);
    ids = model.tokens->encode(text_of(item, model, thinking_off));
  }
  return set.of().cut_middle ? drop_middle(std::move(ids), most) : cut_left(std::move(ids), most);
}

// The declared scorer; a program that has none of that name decodes and says so.
std::string scorer_of(const benchmark& b) {
  const auto& known = scorer_names();
  return std::ranges::find(known, b.scorer) == known.end() ? "none" : b.scorer;
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
    if (!b.prompt.empty()) parse_prompt_form(b.prompt, "`prompt`");
    const auto* lm = std::get_if<lm_eval_style>(&found.style);
    const bool choices = lm != nullptr && lm->choices;
    for (const auto& [key, value] : {std::pair("thinking", b.thinking), {"system", b.system}}) {
      if (value.empty() || value == "off") continue;
      throw usage_error("`" + std::string(key) + "` is '" + value + "' but can only be \"off\"");
    }
    if (b.rank >= b.world) throw usage_error("`rank` must be below `world`");
    if (!b.task.empty() && std::ranges::find(found.groups, b.task) == found.groups.end()) {
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

// The items that an entry chooses.
std::vector<task_item> chosen_items(const benchmark_set& set, const workload_entry& entry) {
  std::vector<task_item> items;
  const benchmark_request& r = entry.benchmark;
  for (std::size_t i = 0; i < set.size(); ++i) {
    task_item item = set.item(i);
    const auto document = static_cast<std::int64_t>(item.doc_id);
    if (r.rank < 0 || document % r.world == r.rank) items.push_back(std::move(item));
  }
  return select(std::move(items), entry.items);
}

benchmark_set set_of(const benchmark_request& r, const tokenizer* tokens) {
  return benchmark_set(find_benchmark(r.name, r.harness), official_files(folders_of(r), tokens),
                       options_of(r));
}

}  // namespace

std::optional<benchmark_summary> summary_of(const workload_entry& entry, const tokenizer* tokens) {
  try {
    const benchmark_set set = set_of(entry.benchmark, tokens);
    const std::vector<task_item> items = chosen_items(set, entry);
    benchmark_summary summary;
    summary.hash = hash_of_tasks(items);
    summary.items = static_cast<std::int64_t>(items.size()) * entry.benchmark.trials;
    for (const task_item& item : items) {
      std::size_t bytes = item.prompt.size();
      for (const chat_message& m : item.messages) bytes += m.content.size();
      summary.prompt_bytes += static_cast<double>(bytes) / static_cast<double>(items.size());
      summary.gen_length +=
          static_cast<double>(item.gen_length) / static_cast<double>(items.size());
      summary.continuations += static_cast<std::int64_t>(item.continuations.size());
    }
    return summary;
  } catch (const error&) {
    return std::nullopt;  // not here, or not readable: loading it says so
  }
}

void fill_benchmark(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                    const loaded_model& model) {
  const benchmark_request& r = entry.benchmark;
  const benchmark& found = find_benchmark(r.name, r.harness);
  const benchmark_set set = set_of(r, &*model.tokens);
  const std::vector<task_item> items = chosen_items(set, entry);
  std::map<std::string, std::size_t> index_of;
  for (std::size_t i = 0; i < set.size(); ++i) index_of[set.source(i).id] = i;
  const std::string scorer = scorer_of(found);
  const auto most =
      static_cast<std::size_t>(r.max_prompt_tokens >= 0 ? r.max_prompt_tokens : found.max_prompt);
  w.record = {entry.name, hash_of_tasks(items), static_cast<std::int64_t>(items.size())};
  for (std::int64_t trial = 0; trial < r.trials; ++trial) {
    for (task_item item : items) {
      sequence_request request;
      request.prompt = fitted(set, index_of.at(item.id), most, model, r.thinking == "off", item);
      request.gen_length = generated_length(entry, run, item);
      request.seed = request_seed(run, w.requests.size());
      if (r.trials > 1) item.id += "#" + std::to_string(trial);
      item.scorer = scorer;
      item.prompt = text_of(item, model, r.thinking == "off");
      w.requests.push_back(std::move(request));
      w.items.push_back(std::move(item));
    }
  }
  const bool judged = scorer == found.scorer || r.kind == "likelihood";
  const std::string form = !r.prompt.empty() ? r.prompt : name_of(found.form);
  w.record.benchmark = {
      found.harness,
      harness_version(found.harness),
      found.config,
      form,
      judged ? found.scorer : "NOT RUN: this program has no scorer " + found.scorer,
      found.metric,
      set.shots(),
      declared_items(found, r.task),
      r.trials};
}

}  // namespace unmask
