// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From a [[workload]] to requests: tasks, items of benchmarks within the limits that their harness sets,
// and lengths without a text. The prompts are made by prompt_maker.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "harness/base/digest.h"
#include "harness/base/error.h"
#include "harness/devices/device.h"
#include "harness/measure/execute_parts.h"
#include "harness/measure/pictures/shown.h"
#include "harness/measure/prompt_maker.h"
#include "harness/plan/serve_settings.h"
#include "harness/workload/benchmark_list.h"
#include "kernels/random.h"

namespace unmask {
namespace {

// A request of arbitrary tokens that end nothing.
sequence_request random_request(std::int64_t prompt, std::int64_t gen_length, std::uint64_t seed,
                                const model_config& model) {
  sequence_request r;
  r.seed = seed;
  r.gen_length = static_cast<std::int32_t>(gen_length);
  for (std::int64_t p = 0; p < prompt; ++p) {
    auto id = static_cast<std::int32_t>(uniform_open(seed, static_cast<std::uint64_t>(p)) *
                                        model.vocabulary);
    if (id == model.mask_id || std::ranges::find(model.stop_ids, id) != model.stop_ids.end()) {
      id = 0;
    }
    r.prompt.push_back(id);
  }
  return r;
}

void fill_requests(loaded_workload& w, const std::vector<trace_request>& lengths,
                   const run_settings& run, const model_config& model) {
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    w.requests.push_back(random_request(lengths[i].prompt_tokens, lengths[i].output_tokens,
                                        stream_key(static_cast<std::uint64_t>(run.seed), 1, i),
                                        model));
    w.arrivals.push_back(lengths[i].arrival_seconds);
  }
}

// Prompts of random tokens instead of tasks: nothing to score.
void fill_random(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                 const model_config& model) {
  for (std::int64_t i = 0; i < entry.items.limit; ++i) {
    const std::uint64_t own =
        stream_key(static_cast<std::uint64_t>(run.seed), 1, static_cast<std::uint64_t>(i));
    w.requests.push_back(random_request(entry.prompt_tokens, run.gen_length, own, model));
  }
  w.record = {entry.name, fmt::format("random tokens, seed {}", run.seed), entry.items.limit};
}

// Cuts more than `most` tokens: OC-U keeps the first and the last half, the others the last `most`.
// Zero: no limit.
void cut(std::vector<std::int32_t>& ids, std::size_t most, bool middle) {
  if (most == 0 || ids.size() <= most) return;
  const auto all = ids.begin();
  const auto size = static_cast<std::ptrdiff_t>(most);
  if (middle) {
    ids.erase(all + size / 2, ids.end() - size / 2);
  } else {
    ids.erase(all, ids.end() - size);
  }
}

// An item's prompt within the limit: OpenCompass drops examples from the end, then the tokenizer cuts.
// The item becomes what was asked.
made_prompt fitted(benchmark_item item, std::size_t most, bool cut_middle,
                   const prompt_maker& prompts, task_item& asked) {
  asked = std::move(item.task);
  made_prompt made = prompts.item(asked);
  const std::size_t fewer = std::max(item.shorter_prompts.size(), item.shorter_messages.size());
  for (std::size_t i = 0; i < fewer && most > 0 && made.tokens.size() > most; ++i) {
    if (!item.shorter_prompts.empty()) {
      asked.prompt = item.shorter_prompts[i];
    } else {
      asked.messages = item.shorter_messages[i];
    }
    made = prompts.item(asked);
  }
  cut(made.tokens, most, cut_middle);
  return made;
}

std::vector<std::string> questions_of(const std::vector<task_item>& items) {
  std::vector<std::string> texts;
  for (const task_item& item : items) texts.push_back(item.prompt);
  return texts;
}

bool shows(const task_item& item) {
  return !item.pictures.empty() || !item.codes.empty();
}

// Reads the pictures of the items, if one of them shows any, and makes all prompts.
std::vector<made_prompt> prompts_of(loaded_workload& w, const workload_entry& entry,
                                    const run_settings& run, const loaded_model& model) {
  const prompt_maker prompts(model, entry.benchmark.thinking == "off");
  if (std::ranges::none_of(w.items, shows)) return prompts.questions(questions_of(w.items));
  if (!entry.rater.empty()) {
    throw usage_error(entry.name + ": workload.judge reads texts, and its tasks show pictures");
  }
  w.pictures = std::make_shared<workload_pictures>(model, w.items, !runs_dry(run));
  w.record.picture_preset = w.pictures->preset();
  w.record.pillow = w.pictures->pillow();
  return located(entry.file.empty() ? entry.name : entry.file.string(),
                 [&] { return prompts.tasks(w.items, w.pictures->rows()); });
}

// A request for every item, each with its prompt.
void add_requests(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                  std::vector<made_prompt> prompts) {
  for (std::size_t i = 0; i < w.items.size(); ++i) {
    task_item& item = w.items[i];
    item.prompt = prompts[i].text;
    w.requests.push_back(request_of(std::move(prompts[i]), generated_length(entry, run, item),
                                    request_seed(run, i)));
    if (w.pictures) w.requests.back().grids = w.pictures->grids(i);
  }
}

// An answer's name says which of several trials it is.
std::string named(const std::string& id, std::int64_t trial, const benchmark_request& r) {
  return r.trials > 1 ? id + "#" + std::to_string(trial) : id;
}

// The items of a benchmark that asks about pictures, through each model's own template.
void add_shown(loaded_workload& w, const workload_entry& entry, const run_settings& run,
               const loaded_model& model, const benchmark_tasks& tasks) {
  if (entry.benchmark.max_prompt_tokens > 0) {
    throw usage_error(entry.name +
                      ": `max_prompt_tokens` cuts texts, and its prompts show pictures");
  }
  for (std::int64_t trial = 0; trial < entry.benchmark.trials; ++trial) {
    for (const benchmark_item& chosen : tasks.items) {
      w.items.push_back(chosen.task);
      w.items.back().id = named(chosen.task.id, trial, entry.benchmark);
    }
  }
  add_requests(w, entry, run, prompts_of(w, entry, run, model));
}

// The items of a benchmark of texts, within the limit of its harness.
void add_texts(loaded_workload& w, const workload_entry& entry, const run_settings& run,
               const loaded_model& model, const benchmark_tasks& tasks) {
  const benchmark_request& r = entry.benchmark;
  const benchmark& found = find_benchmark(r.name, r.harness);
  const auto most =
      static_cast<std::size_t>(r.max_prompt_tokens >= 0 ? r.max_prompt_tokens : found.max_prompt);
  const prompt_maker prompts(model, r.thinking == "off");
  std::vector<conversation> chats;
  for (const benchmark_item& item : tasks.items) {
    if (!item.task.messages.empty()) chats.push_back(item.task.messages);
    chats.insert(chats.end(), item.shorter_messages.begin(), item.shorter_messages.end());
  }
  prompts.expect(chats);
  for (std::int64_t trial = 0; trial < r.trials; ++trial) {
    for (const benchmark_item& chosen : tasks.items) {
      task_item item;
      made_prompt made = fitted(chosen, most, found.cut_middle, prompts, item);
      item.prompt = made.text;
      item.id = named(item.id, trial, r);
      w.requests.push_back(request_of(std::move(made), generated_length(entry, run, item),
                                      request_seed(run, w.requests.size())));
      w.items.push_back(std::move(item));
    }
  }
}

void fill_benchmark(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                    const loaded_model& model) {
  const benchmark_request& r = entry.benchmark;
  const benchmark& found = find_benchmark(r.name, r.harness);
  const benchmark_tasks tasks = chosen_tasks(entry, model.directory);
  w.record = {entry.name, hash_of_benchmark(tasks), static_cast<std::int64_t>(tasks.items.size())};
  const bool shown = std::ranges::any_of(tasks.items, shows, &benchmark_item::task);
  (shown ? add_shown : add_texts)(w, entry, run, model, tasks);
  w.record.benchmark = {
      found.harness, tasks.head.version, found.config,     tasks.head.form,
      found.scorer,  found.metric,       tasks.head.shots, declared_items(found, r.task),
      r.trials};
}

// Called before the items get the template of the model that answers.
void load_rater(loaded_workload& w, const workload_entry& of, const run_settings& run) {
  const std::filesystem::path& path = of.rater;
  model_entry entry;
  entry.path = path;
  entry.hash = of.rater_hash;
  entry.name = path.filename().string();
  run_settings rating;
  rating.device = "cpu";
  if (find_device(run.device).heeds == find_device(rating.device).heeds) {
    rating.isa = run.isa;
    rating.gemm = run.gemm;
  }
  w.rater = load_model(entry, rating);
  const loaded_model& rater = *w.rater;
  if (rater.config.attention != mask_kind::causal || !rater.tokens) {
    throw usage_error("workload.judge is " + path.string() +
                      ", which is no autoregressive model with a tokenizer");
  }
  for (made_prompt& made : prompt_maker(rater).questions(questions_of(w.items))) {
    w.rated_prompts.push_back(std::move(made.tokens));
  }
  for (std::size_t i = 0; i < w.items.size(); ++i) {
    const bool rated = w.items[i].scorer == "none";
    w.rated_references.push_back(
        rated ? likelihood_of(*w.rater, w.rated_prompts[i], w.items[i].answer) : std::nan(""));
  }
  w.record.rater = entry.name;
}

void fill_tasks(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                const loaded_model& model) {
  if (!entry.benchmark.name.empty()) {
    fill_benchmark(w, entry, run, model);
    return;
  }
  std::vector<task_item> all = read_tasks(entry.file.string());
  w.items = located(entry.file.string(), [&] { return select(std::move(all), entry.items); });
  w.record = {entry.name, hash_of_tasks(w.items), static_cast<std::int64_t>(w.items.size())};
  std::vector<made_prompt> prompts = prompts_of(w, entry, run, model);
  if (!entry.rater.empty()) load_rater(w, entry, run);
  add_requests(w, entry, run, std::move(prompts));
}

std::string hash_of_lengths(const loaded_workload& w) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < w.requests.size(); ++i) {
    hash = stream_key(hash, w.requests[i].prompt.size(),
                      static_cast<std::uint64_t>(w.requests[i].gen_length));
    hash = stream_key(hash, static_cast<std::uint64_t>(w.arrivals[i] * 1e6));
  }
  return fmt::format("lengths:{:016x}", hash);
}

void fill_workload(loaded_workload& w, const workload_entry& entry, const run_settings& run,
                   const loaded_model& model) {
  if (entry.prompt_tokens > 0) {
    fill_random(w, entry, run, model.config);
    return;
  }
  if (entry.lengths.empty() && entry.trace_format.empty()) {
    if (!model.tokens) {
      throw environment_error(entry.name +
                              ": tasks need a tokenizer.json beside the model; `trace` "
                              "and `lengths` do without");
    }
    fill_tasks(w, entry, run, model);
    return;
  }
  fill_requests(w, request_lengths(entry, run), run, model.config);
  w.record = {entry.name, hash_of_lengths(w), static_cast<std::int64_t>(w.requests.size())};
}

}  // namespace

std::int32_t generated_length(const workload_entry& entry, const run_settings& run,
                              const task_item& item) {
  if (entry.gen_length > 0) return static_cast<std::int32_t>(entry.gen_length);
  return run.gen_length > 0 ? static_cast<std::int32_t>(run.gen_length) : item.gen_length;
}

std::uint64_t request_seed(const run_settings& run, std::size_t request) {
  const philox4 noise = philox4x32(static_cast<std::uint64_t>(run.seed), 1, request);
  return (std::uint64_t{noise.x[0]} << 32) | noise.x[1];
}

std::string hash_of_prompts(const std::vector<sequence_request>& requests) {
  std::string lines;
  for (const sequence_request& r : requests) {
    for (const std::int32_t id : r.prompt) lines += std::to_string(id) + " ";
    lines += "\n";
  }
  return sha256_hex(lines);
}

std::shared_ptr<const loaded_workload> load_workload(const workload_entry& entry,
                                                     const run_settings& run,
                                                     const loaded_model& model) {
  auto w = std::make_shared<loaded_workload>();
  fill_workload(*w, entry, run, model);
  w->record.prompts_hash = hash_of_prompts(w->requests);
  return w;
}

}  // namespace unmask
