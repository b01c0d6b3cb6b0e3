// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/forecast.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/model/config.h"
#include "harness/plan/expected_time.h"
#include "harness/workload/benchmark_list.h"
#include "harness/workload/traces.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

constexpr double bytes_per_token = 4, assumed_prompt = 1000;

// Answers, prompt and canvas of one pass.
struct pass_work {
  std::int64_t items = 0;
  double prompt = 0, generated = 0;
  bool known = false;
  double continuations = 0;  // of an item by likelihood
};

std::int64_t cut(std::int64_t there, const item_selection& items) {
  const std::int64_t left = std::max<std::int64_t>(there - items.offset, 0);
  return items.limit > 0 ? std::min(items.limit, left) : left;
}

pass_work of_benchmark(const workload_entry& entry, const fs::path& model) {
  // Points of one experiment ask for the same items again and again.
  static std::map<std::string, std::optional<benchmark_summary>> read;
  const benchmark& b = find_benchmark(entry.benchmark.name, entry.benchmark.harness);
  const benchmark_request& r = entry.benchmark;
  const std::string key = canonical_benchmark(r) + r.path + "\n" + r.base.string() + "\n" +
                          std::to_string(entry.items.limit) + " " +
                          std::to_string(entry.items.offset);
  const auto [at, fresh] = read.try_emplace(key);
  if (fresh) at->second = summary_of(entry, model);
  const double most =
      static_cast<double>(r.max_prompt_tokens >= 0 ? r.max_prompt_tokens : b.max_prompt);
  const auto within = [&](double tokens) { return most > 0 ? std::min(tokens, most) : tokens; };
  if (at->second) {
    const benchmark_summary& s = *at->second;
    const auto one = static_cast<double>(s.items) / static_cast<double>(r.trials);
    return {s.items, within(s.prompt_bytes / bytes_per_token), s.gen_length, true,
            one > 0 ? static_cast<double>(s.continuations) / one : 0};
  }
  const double choices = r.kind != "likelihood" ? 0 : b.name == "piqa" ? 2 : 4;
  // A source of prompts has as many as its file; the plan knows those it asks for.
  const std::int64_t there = declared_items(b, r.task);
  const std::int64_t items = there > 0 ? cut(there, entry.items) : entry.items.limit;
  return {items * r.trials, most > 0 ? most : assumed_prompt,
          static_cast<double>(declared_length(b, r.task)), false, choices};
}

pass_work pass_of(const experiment_point& p) {
  const workload_entry& w = p.workload;
  pass_work found;
  if (!w.benchmark.name.empty()) {
    found = of_benchmark(w, p.model.path);
  } else if (!w.trace_format.empty() && fs::exists(w.file)) {
    const auto requests = read_trace(w.trace_format, w.file.string());
    found.items = cut(static_cast<std::int64_t>(requests.size()), w.items);
    found.known = true;
    for (const trace_request& r : requests) {
      found.prompt += static_cast<double>(r.prompt_tokens) / static_cast<double>(requests.size());
      found.generated +=
          static_cast<double>(r.output_tokens) / static_cast<double>(requests.size());
    }
  } else if (!w.file.empty() && fs::exists(w.file)) {
    static std::map<std::string, std::vector<task_item>> read;  // a sweep asks for each point
    auto& tasks = read[w.file.string()];
    if (tasks.empty()) tasks = read_tasks(w.file.string());
    const std::vector<task_item> items = select(tasks, w.items);
    found.items = static_cast<std::int64_t>(items.size());
    found.known = true;
    for (const task_item& item : items) {
      const auto n = static_cast<double>(items.size());
      found.prompt += static_cast<double>(item.prompt.size()) / bytes_per_token / n;
      found.generated += item.gen_length / n;
    }
  }
  const std::int64_t length = w.gen_length > 0 ? w.gen_length : p.run.gen_length;
  if (length > 0) found.generated = static_cast<double>(length);
  return found;
}

// Decode forwards of one answer: one token each unless the parameters say more. Block methods count
// their steps by block, and commit each block once.
double forwards_of(const experiment_point& p, const method_info& method, double generated,
                   double model_block) {
  const double steps = whole_or(p.params, "steps", 0);
  const double tokens = whole_or(p.params, "tokens_per_step", 1);
  if (method.shape.extent == row_extent::token) return generated;
  if (model_block == 0)
    return steps > 0 ? std::min(steps, generated) : std::ceil(generated / tokens);
  const double blocks = std::ceil(generated / whole_or(p.params, "block_length", model_block));
  return (steps > 0 ? blocks * steps : generated) + blocks;
}

std::optional<model_config> config_of(const model_entry& model) {
  for (const fs::path& folder : {model.path, model.shape}) {
    if (!folder.empty() && fs::exists(folder / "config.json")) return read_model_config(folder);
  }
  return std::nullopt;
}

// What arrivals in real time take at least. A search tries four rates a seed (two that bracket the
// capacity, two between them) and ends with a run at the rate it found.
double arrival_seconds(const run_settings& run) {
  if (run.kind != "serve") return 0;
  const parameters serve(run.serve);
  if (serve.text("clock") == "virtual" || serve.integer("requests") > 0) return 0;
  const auto seeds = static_cast<double>(serve.integer("search_seeds"));
  return serve.real("duration") * (serve.flag("search") ? 4 * seeds + 1 : 1);
}

std::string hours(double value) {
  if (!std::isfinite(value)) return "?";
  return value < 0.095 ? fmt::format("{:.2g}", value) : fmt::format("{:.1f}", value);
}

}  // namespace

point_forecast forecast(const experiment_spec& spec, const experiment_point& p,
                        const device_ceilings& device) {
  const pass_work w = pass_of(p);
  const method_info& method = method_registry::instance().find(p.method);
  const std::optional<model_config> config = config_of(p.model);
  point_forecast f{w.items, w.prompt, w.known, w.generated, 0, 1, std::nan("")};
  f.passes = static_cast<double>(spec.evidence.warmup + spec.evidence.min_repetitions);
  run_work run;
  run.answers = static_cast<double>(w.items);
  run.batch = static_cast<double>(std::max<std::int64_t>(p.run.batch_size, 1));
  run.prompt = w.prompt;
  run.generated = w.generated;
  run.forwards = forwards_of(p, method, w.generated, config ? config->block : 0);
  if (p.workload.benchmark.kind == "likelihood") {
    const benchmark_request& r = p.workload.benchmark;
    const bool letter = r.name == "mmlu";  // one answer token: exact after one round of one row
    const double rows = r.mc_batch > 0 ? static_cast<double>(r.mc_batch) : letter ? 1 : 8;
    const double draws = r.mc_num > 0 ? static_cast<double>(r.mc_num) : letter ? 1 : 128;
    run.answers = static_cast<double>(w.items) * w.continuations * rows;
    run.batch = rows;
    run.forwards = std::max(draws / rows, 1.0);
  }
  f.forwards = std::ceil(run.answers / run.batch) * run.forwards;
  if (config) {
    f.gpu_hours =
        f.passes / 3600 *
        std::max(
            expected_seconds(*config, work_of(*config, method, parameters(p.params), run), device),
            arrival_seconds(p.run));
  }
  return f;
}

plan_forecast forecast_of(const experiment_spec& spec, const std::vector<experiment_point>& points,
                          const device_ceilings& device) {
  plan_forecast sum;
  for (const experiment_point& p : points) {
    const point_forecast f = forecast(spec, p, device);
    ++sum.points;
    sum.answers += static_cast<std::int64_t>(static_cast<double>(f.items) * f.passes);
    sum.forwards += f.forwards * f.passes;
    if (std::isfinite(f.gpu_hours)) {
      sum.gpu_hours += f.gpu_hours;
    } else {
      ++sum.without_hours;
    }
  }
  return sum;
}

std::string forecast_table(const experiment_spec& spec, const std::vector<experiment_point>& points,
                           const device_ceilings& device) {
  std::string text =
      "| point | model | task | items | prompt | tokens | method | settings | batch | device | "
      "forwards, at most | passes | GPU hours |\n"
      "|---|---|---|---:|---:|---:|---|---|---:|---|---:|---:|---:|\n";
  bool guessed = false;
  for (const experiment_point& p : points) {
    const point_forecast f = forecast(spec, p, device);
    guessed = guessed || !f.prompt_known;
    text += fmt::format(
        "| {} | {} | {} | {} | {}{:.0f} | {:.0f} | {} | {} | {} | {} | {:.0f} | {:.0f} | {} |\n",
        p.id, p.model.name, p.workload.name, f.items, f.prompt_known ? "" : "~", f.prompt,
        f.generated, p.label, p.variation, p.run.batch_size, p.run.device, f.forwards, f.passes,
        hours(f.gpu_hours));
  }
  const plan_forecast sum = forecast_of(spec, points, device);
  text += fmt::format(
      "\n{} points\n{} answers, {:.0f} forwards at most, {} hours of one {} expected by a "
      "roofline{}\n",
      sum.points, sum.answers, sum.forwards, hours(sum.gpu_hours), device.name,
      sum.without_hours > 0
          ? fmt::format("; {} points without: no configuration of their model is here",
                        sum.without_hours)
          : "");
  if (guessed) {
    text +=
        "~: the prompts of the benchmark are not written yet (unmask prompts); they are taken to "
        "be "
        "as long as the harness allows, or 1000 tokens\n";
  }
  return text;
}

}  // namespace unmask
