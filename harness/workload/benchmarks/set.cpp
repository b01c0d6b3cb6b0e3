// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/json_lines.h"
#include "harness/workload/benchmarks/benchmark.h"
#include "harness/workload/benchmarks/python_random.h"

namespace unmask {
namespace {

// simple_evaluate's fewshot_random_seed.
constexpr std::uint64_t lm_eval_seed = 1234;

std::vector<source_item> written_examples(const std::filesystem::path& folder,
                                          const std::string& name) {
  const std::string path = (folder / (name + ".json")).string();
  const json_value file = parse_json(read_workload_text(path), path);
  const json_reader object(file, path);
  const json_value::array* list = object.at("examples").items();
  if (list == nullptr) object.fail("examples", "must be an array of objects");
  std::vector<source_item> all;
  for (const json_value& entry : *list) {
    if (entry.members() == nullptr) object.fail("examples", "must be an array of objects");
    source_item e;
    for (const auto& [key, value] : *entry.members()) {
      if (value.text() == nullptr) object.fail("examples", "must hold texts only");
      e.fields[key] = *value.text();
    }
    all.push_back(std::move(e));
  }
  return all;
}

std::vector<source_item> read_items(const benchmark& of, const official_files& files,
                                    const benchmark_options& options) {
  if (of.groups.empty()) {
    if (!options.group.empty()) {
      throw usage_error("the benchmark " + of.name + " has no tasks to choose from");
    }
    return of.read(files, of.split, "");
  }
  if (!options.group.empty() && std::ranges::find(of.groups, options.group) == of.groups.end()) {
    throw usage_error("the benchmark " + of.name + " has no task '" + options.group + "'");
  }
  std::vector<source_item> all;
  for (const std::string& group : of.groups) {
    if (!options.group.empty() && group != options.group) continue;
    for (source_item& item : of.read(files, of.split, group)) all.push_back(std::move(item));
  }
  return all;
}

// lm-eval's name of the task, or one made alike.
std::string task_name(const benchmark& of, const std::string& group) {
  if (group.empty()) return of.config;
  const std::string generative = "_generative";
  return of.config.ends_with(generative)
             ? of.config.substr(0, of.config.size() - generative.size()) + "_" + group + generative
             : of.config + "_" + group;
}

}  // namespace

benchmark_set::benchmark_set(const benchmark& of, const official_files& files,
                             const benchmark_options& options)
    : benchmark_set(of, read_items(of, files, options), files, options) {}

benchmark_set::benchmark_set(const benchmark& of, std::vector<source_item> items,
                             const official_files& files, const benchmark_options& options)
    : of_(&of),
      options_(options),
      form_(options.form.empty() ? of.form : parse_prompt_form(options.form, of.name)),
      shots_(options.shots < 0 ? of.shots : options.shots),
      items_(std::move(items)) {
  if (shots_ > 0 && of.examples.rule == example_rule::none) {
    throw usage_error("the benchmark " + of.name + " (" + of.harness +
                      ") has no examples to put before the question; `shots` must be 0");
  }
  if (options_.world < 1 || options_.rank >= options_.world) {
    throw usage_error("the rank of a benchmark's prompts must be below the number of processes");
  }
  std::map<std::string, std::size_t> seen;
  for (const source_item& item : items_) position_.push_back(seen[item.group]++);
  if (shots_ > 0) read_examples(files);
}

void benchmark_set::read_examples(const official_files& files) {
  const example_source& from = of_->examples;
  std::map<std::string, std::size_t> sizes;
  for (const source_item& item : items_) ++sizes[item.group];
  for (const auto& [group, count] : sizes) {
    std::vector<source_item>& pool = examples_[group];
    if (from.rule == example_rule::written) {
      pool = written_examples(options_.examples, from.from);
    } else if (from.rule == example_rule::test) {
      for (const source_item& item : items_) {
        if (item.group == group) pool.push_back(item);
      }
    } else {
      pool = of_->read(files, from.from, group);
    }
    if (pool.size() < static_cast<std::size_t>(shots_) + (from.one_more ? 1 : 0)) {
      throw usage_error(of_->name + ": " + std::to_string(shots_) +
                        " examples were asked for, and " + "there are " +
                        std::to_string(pool.size()));
    }
    if (from.rule != example_rule::drawn) continue;
    // One generator per task and process; a document's draw depends on all before it there.
    auto& draws = draws_[group];
    draws.resize(count);
    const auto k = static_cast<std::size_t>(shots_);
    const auto world = static_cast<std::size_t>(options_.world);
    for (std::size_t rank = 0; rank < world; ++rank) {
      if (options_.rank >= 0 && rank != static_cast<std::size_t>(options_.rank)) continue;
      python_random generator(lm_eval_seed);
      for (std::size_t i = rank; i < count; i += world) {
        const std::size_t drawn = k + (from.one_more ? 1 : 0);
        // For one user turn lm-eval draws twice and takes the second.
        if (form_ == prompt_form::one_turn) generator.sample(pool.size(), drawn);
        draws[i] = generator.sample(pool.size(), drawn);
        if (from.one_more && from.from == of_->split) std::erase(draws[i], i);
        draws[i].resize(k);
      }
    }
  }
}

std::vector<std::size_t> benchmark_set::example_rows(std::size_t item) const {
  std::vector<std::size_t> rows;
  if (shots_ == 0) return rows;
  if (of_->examples.rule == example_rule::drawn) {
    return draws_.at(items_.at(item).group).at(position_.at(item));
  }
  for (int i = 0; i < shots_; ++i) rows.push_back(static_cast<std::size_t>(i));
  return rows;
}

task_item benchmark_set::item(std::size_t index, int shots) const {
  const source_item& from = items_.at(index);
  std::vector<source_item> examples;
  std::vector<std::size_t> rows = example_rows(index);
  if (shots >= 0) rows.resize(std::min(rows.size(), static_cast<std::size_t>(shots)));
  for (const std::size_t row : rows) examples.push_back(examples_.at(from.group).at(row));
  rendered_prompt prompt;
  if (!from.turns.empty()) {
    prompt.messages = from.turns;
  } else {
    prompt =
        std::visit([&](const auto& s) { return render(s, from, examples, form_); }, of_->style);
  }
  if (!options_.system && !prompt.messages.empty() && prompt.messages.front().role == "system") {
    prompt.messages.erase(prompt.messages.begin());
  }
  task_item item;
  item.id = from.id;
  item.family = from.group.empty() ? of_->name : from.group;
  item.prompt = std::move(prompt.text);
  item.messages = std::move(prompt.messages);
  item.bos = form_ == prompt_form::bos;
  item.answer = from.answer;
  item.scorer = of_->scorer;
  item.check = from.check;
  item.doc = from.doc;
  item.doc_id = position_.at(index);
  item.task = task_name(*of_, from.group);
  item.gen_length = from.gen_length > 0 ? from.gen_length : of_->gen_length;
  item.right = from.right;
  if (const auto* lm = std::get_if<lm_eval_style>(&of_->style)) {
    item.stop = lm->stop;
    if (lm->choices) {
      for (const std::string& choice : from.choices) item.continuations.push_back(" " + choice);
    }
  }
  return item;
}

}  // namespace unmask
