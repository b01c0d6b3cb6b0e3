// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "harness/base/error.h"
#include "harness/devices/device.h"
#include "harness/model/config.h"
#include "harness/model/vision/tower_work.h"
#include "harness/plan/expected_time.h"
#include "harness/plan/serve_settings.h"
#include "harness/workload/benchmark_list.h"

namespace unmask {
namespace {

namespace fs = std::filesystem;

constexpr double bytes_per_token = 4, assumed_prompt = 1000;

constexpr double not_known = std::numeric_limits<double>::quiet_NaN();

// What one request asks for, in tokens.
struct request_size {
  double prompt = 0, asked_for = 0;
  double generated = asked_for;  // the canvas, where it is more
};

// The requests of one pass: `answers` of them, those of `each` in turn, again and again.
struct pass_work {
  double answers = not_known;
  std::vector<request_size> each;  // empty: their lengths are not known
  std::vector<double> recorded;    // arrivals of a trace
  double arriving = 0;             // seconds until the last one is there
  bool exact = false;              // `each` has the very tokens, not an estimate from text
  bool guessed = false;            // point_forecast::prompt_guessed
  double continuations = 0;        // of an item by likelihood
  std::string unknown;             // why something is not known
};

std::int64_t cut(std::int64_t there, const item_selection& items) {
  const std::int64_t left = std::max<std::int64_t>(there - items.offset, 0);
  return items.limit > 0 ? std::min(items.limit, left) : left;
}

constexpr const char* rows_unknown =
    "how many rows of a prompt a picture takes is known when it is prepared";

// What a benchmark's prompts say before any model is loaded, and what they show beside text.
struct written_prompts {
  benchmark_summary summary;
  double codes = 0;  // of pictures, a prompt
  bool pictures = false;
};
std::optional<written_prompts> read_written(const workload_entry& entry, const fs::path& model) {
  const auto summary = summary_of(entry, model);
  if (!summary) return std::nullopt;
  written_prompts found{*summary};
  const benchmark_tasks tasks = chosen_tasks(entry, model);
  for (const benchmark_item& item : tasks.items) {
    found.codes += static_cast<double>(item.task.codes.size());
    found.pictures = found.pictures || !item.task.pictures.empty();
  }
  found.codes /= static_cast<double>(tasks.items.size());
  return found;
}

pass_work of_benchmark(const workload_entry& entry, const fs::path& model) {
  // Points of one experiment ask for the same items again and again.
  static std::map<std::string, std::optional<written_prompts>> read;
  const benchmark& b = find_benchmark(entry.benchmark.name, entry.benchmark.harness);
  const benchmark_request& r = entry.benchmark;
  const std::string key = canonical_benchmark(r) + r.path.string() + "\n" + r.base.string() + "\n" +
                          std::to_string(entry.items.limit) + " " +
                          std::to_string(entry.items.offset);
  const auto [at, fresh] = read.try_emplace(key);
  if (fresh) at->second = read_written(entry, model);
  const double most =
      static_cast<double>(r.max_prompt_tokens >= 0 ? r.max_prompt_tokens : b.max_prompt);
  const auto within = [&](double tokens) { return most > 0 ? std::min(tokens, most) : tokens; };
  pass_work found;
  if (at->second) {
    const benchmark_summary& s = at->second->summary;
    const auto one = static_cast<double>(s.items) / static_cast<double>(r.trials);
    found.answers = static_cast<double>(s.items);
    found.each = {{within(s.prompt_bytes / bytes_per_token + at->second->codes), s.gen_length}};
    if (at->second->pictures) {
      found.unknown = rows_unknown;
      found.each.clear();
    }
    found.continuations = one > 0 ? static_cast<double>(s.continuations) / one : 0;
    return found;
  }
  found.guessed = true;
  found.continuations = r.kind != "likelihood" ? 0 : b.name == "piqa" ? 2 : 4;
  // A source of prompts has as many as its file; the plan knows those it asks for.
  const std::int64_t there = declared_items(b, r.task);
  const std::int64_t items = there > 0 ? cut(there, entry.items) : entry.items.limit;
  if (items > 0) {
    found.answers = static_cast<double>(items * r.trials);
  } else {
    found.unknown = "how many prompts " + b.name + " has is in its file, which is not here";
  }
  found.each = {
      {most > 0 ? most : assumed_prompt, static_cast<double>(declared_length(b, r.task))}};
  return found;
}

pass_work of_tasks(const workload_entry& w) {
  static std::map<std::string, std::vector<task_item>> read;  // a sweep asks for each point
  auto& tasks = read[w.file.string()];
  if (tasks.empty()) tasks = read_tasks(w.file.string());
  pass_work found;
  for (const task_item& item : select(tasks, w.items)) {
    const auto codes = static_cast<double>(item.codes.size());
    found.each.push_back({static_cast<double>(item.prompt.size()) / bytes_per_token + codes,
                          static_cast<double>(item.gen_length)});
    if (!item.pictures.empty()) {
      found.unknown = rows_unknown;
    }
  }
  found.answers = static_cast<double>(found.each.size());
  if (!found.unknown.empty()) found.each.clear();
  return found;
}

pass_work of_lengths(const experiment_point& p) {
  pass_work found;
  found.exact = true;
  for (const trace_request& r : request_lengths(p.workload, p.run)) {
    found.each.push_back(
        {static_cast<double>(r.prompt_tokens), static_cast<double>(r.output_tokens)});
    found.recorded.push_back(r.arrival_seconds);
  }
  found.answers = static_cast<double>(found.each.size());
  return found;
}

pass_work requests_of(const experiment_point& p) {
  const workload_entry& w = p.workload;
  if (!w.benchmark.name.empty()) return of_benchmark(w, p.model.path);
  if (!w.lengths.empty()) return of_lengths(p);
  if (w.prompt_tokens > 0) {
    pass_work found;
    found.answers = static_cast<double>(w.items.limit);
    found.each = {{static_cast<double>(w.prompt_tokens), 0}};
    found.exact = true;
    return found;
  }
  if (w.file.empty() || !fs::exists(w.file)) {
    pass_work found;
    found.unknown = w.name + " is in a file that is not here";
    return found;
  }
  return w.trace_format.empty() ? of_tasks(w) : of_lengths(p);
}

// Of a served point the requests that arrive.
void let_arrive(const experiment_point& p, pass_work& found) {
  const parameters serve(p.run.serve);
  if (serve.flag("search")) {
    found.answers = not_known;
    found.unknown = "a search finds the rates, and with them how many requests it serves";
    return;
  }
  // Those of a trace that is not here, or as many as a file that is not here has.
  const bool by_file = serve.text("arrivals") == "trace" || serve.integer("requests") == 0;
  if (found.each.empty() && by_file) return;
  try {
    const std::vector<double> times =
        arrival_times(serve, found.recorded, found.each.size(), serve.real("rate"),
                      static_cast<std::uint64_t>(p.run.seed));
    found.answers = static_cast<double>(times.size());
    found.arriving = times.empty() ? 0 : times.back();
  } catch (const error& problem) {
    found.answers = not_known;
    found.unknown = problem.what();
  }
}

pass_work pass_of(const experiment_point& p) {
  pass_work found = requests_of(p);
  const std::int64_t length = p.workload.gen_length > 0 ? p.workload.gen_length : p.run.gen_length;
  for (request_size& one : found.each) {
    if (length > 0) one.generated = one.asked_for = static_cast<double>(length);
    if (one.generated > 0 || p.workload.benchmark.kind == "likelihood") continue;
    found.each.clear();
    found.unknown = "how long an answer is stands in a file that is not here";
    break;
  }
  if (p.run.kind == "serve") let_arrive(p, found);
  return found;
}

// Decode forwards of one answer: one token each unless the parameters say more. Block methods count
// their steps by block, and commit each block once. `begins`: of the answer in its first block.
double forwards_of(const experiment_point& p, const method_info& method, double generated,
                   double model_block, double begins) {
  const auto of = [&](pace_fact fact, double fallback) {
    return fact_or(method, p.params, fact, fallback);
  };
  const double steps = of(pace_fact::steps, 0);
  const double tokens = of(pace_fact::tokens_per_step, 1);
  if (method.shape.extent == row_extent::token) return generated;
  if (model_block == 0)
    return steps > 0 ? std::min(steps, generated) : std::ceil(generated / tokens);
  const double block = of(pace_fact::block_length, model_block);
  const double blocks = std::ceil((std::fmod(begins, block) + generated) / block);
  return (steps > 0 ? blocks * steps : generated) + blocks;
}

std::optional<fs::path> folder_of_config(const model_entry& model) {
  for (const fs::path& folder : {model.path, model.config}) {
    if (!folder.empty() && fs::exists(folder / "config.json")) return folder;
  }
  return std::nullopt;
}
std::optional<model_config> config_of(const model_entry& model) {
  const std::optional<fs::path> folder = folder_of_config(model);
  return folder ? std::optional(read_model_config(*folder)) : std::nullopt;
}

// Why rows of pictures are not known, and what one of a common size costs this model.
std::string why_rows_are_unknown(const model_entry& model,
                                 const std::optional<model_config>& config) {
  if (!config) return rows_unknown;
  const std::string cost = cost_of_a_picture(
      read_vision_config(*folder_of_config(model), config->vocabulary), config->hidden);
  return cost.empty() ? rows_unknown : rows_unknown + ("; " + cost);
}

// What arrivals in real time take at least. A search tries four rates a seed (two that bracket the
// capacity, two between them) and ends with a run at the rate it found.
double arrival_seconds(const run_settings& run, const pass_work& w) {
  if (run.kind != "serve") return 0;
  const parameters serve(run.serve);
  if (serve.text("clock") == "virtual") return 0;
  const auto seeds = static_cast<double>(serve.integer("search_seeds"));
  const double duration = serve.integer("requests") > 0 ? 0 : serve.real("duration");
  if (serve.flag("search")) return duration * (4 * seeds + 1);
  return std::max(duration, w.arriving);
}

// The method under these settings. Nothing if it cannot decode this model: its row will say so.
std::optional<recipe> recipe_of(const experiment_point& p, const method_info& method,
                                const model_config& model) {
  try {
    const parameters settings(p.params);
    method.check(model, settings);
    return method.make(model, settings);
  } catch (const error&) {
    return std::nullopt;
  }
}

// The canvas of each request as the method lays it out behind a prompt that is known to the token.
void lay_out(const recipe& made, const model_config& model, std::vector<request_size>& each) {
  try {
    for (request_size& one : each) {
      sequence_request request;
      request.prompt.resize(static_cast<std::size_t>(one.prompt));
      request.gen_length = static_cast<std::int32_t>(one.asked_for);
      one.generated = made.pace->canvas_length(model, request) - one.prompt;
    }
  } catch (const error&) {
    return;  // what this method cannot decode, its row will say
  }
}

// Sums over the requests of a pass, each as often as it is asked; where nobody knows how many there are,
// over each once.
struct pass_sums {
  double count = 0, prompt = 0, generated = 0, forwards = 0, longest = 0, prefills = 0;
};

pass_sums sums_of(const experiment_point& p, const method_info& method, const pass_work& w,
                  double model_block, bool absolute) {
  pass_sums all;
  const auto size = static_cast<double>(w.each.size());
  all.count = std::isfinite(w.answers) ? w.answers : size;
  const std::int64_t piece =
      p.run.kind == "serve" ? parameters(p.run.serve).integer("prefill_chunk") : 0;
  for (std::size_t i = 0; i < w.each.size(); ++i) {
    const double times = std::floor(all.count / size) +
                         (static_cast<double>(i) < std::fmod(all.count, size) ? 1 : 0);
    if (times == 0) break;
    const request_size& one = w.each[i];
    const double forwards =
        forwards_of(p, method, one.generated, model_block, absolute ? one.prompt : 0);
    all.prompt += times * one.prompt;
    all.generated += times * one.generated;
    all.forwards += times * forwards;
    all.longest = std::max(all.longest, forwards);
    all.prefills += times * (piece > 0 ? std::ceil(one.prompt / static_cast<double>(piece)) : 1);
  }
  return all;
}

// Forwards of one pass at most. In a closed batch a place is refilled as soon as its answer is done, so
// the last answer begins when the others' forwards, shared among all places, are over, or before.
double most_forwards(const experiment_point& p, const pass_sums& all, bool prefills) {
  const bool serves = p.run.kind == "serve";
  const auto places = static_cast<double>(std::max<std::int64_t>(p.run.batch_size, 1));
  double most = all.forwards;
  if (!serves || parameters(p.run.serve).text("arrivals") == "closed") {
    most = std::min(std::ceil(all.count / places) * all.longest,
                    std::ceil((all.forwards - all.longest) / places + all.longest));
  }
  // Prompts enter in forwards of their own, one in each at the worst; of a closed batch in those of others.
  return serves && prefills ? most + all.prefills : most;
}

std::string device_of(const experiment_point& p) {
  static const std::string automatic = choose_device("auto").name;
  return p.run.device == "auto" ? automatic : p.run.device;
}

// What becomes of the hours: of a GPU, unless the point runs elsewhere or computes nothing.
void expect_hours(const experiment_point& p, const pass_work& w, double seconds, bool configured,
                  point_forecast& f) {
  const std::string device = device_of(p);
  if (runs_dry(p.run)) {
    f.no_hours = "no layer is computed, so that no GPU is needed";
    return;
  }
  if (configured && std::isfinite(seconds)) f.work = f.passes * seconds / 3600;
  if (!find_device(device).is_card) {
    f.no_hours = "on " + device + ", so no hours of a GPU";
    return;
  }
  f.on_gpu = true;
  if (!configured) {
    f.no_hours = "hours unknown: no configuration of the model is here";
    return;
  }
  const double arrivals = arrival_seconds(p.run, w);
  f.at_least = !std::isfinite(seconds);
  if (f.at_least && arrivals == 0) return;  // point_forecast::unknown says why
  f.gpu_hours = static_cast<double>(p.run.ranks) * f.passes / 3600 *
                (f.at_least ? arrivals : std::max(seconds, arrivals));
}

// The widest requests of the places that are taken at once.
void expect_memory(const experiment_point& p, const method_info& method, const model_config& model,
                   const pass_work& w, point_forecast& f) {
  if (w.each.empty()) return;  // point_forecast::unknown says why
  if (p.workload.benchmark.kind == "likelihood") {
    f.unknown = "memory unknown: likelihoods have batches of their own";
    return;
  }
  std::vector<request_size> widest = w.each;
  std::ranges::stable_sort(widest, std::ranges::greater{},
                           [](const request_size& one) { return one.prompt + one.asked_for; });
  double places = static_cast<double>(std::max<std::int64_t>(p.run.batch_size, 1));
  if (std::isfinite(w.answers)) places = std::clamp(w.answers, 1.0, places);
  std::vector<sequence_request> requests(static_cast<std::size_t>(places));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const request_size& one = widest[i % widest.size()];
    requests[i].prompt.resize(static_cast<std::size_t>(one.prompt));
    requests[i].gen_length = static_cast<std::int32_t>(one.asked_for);
  }
  run_settings run = p.run;
  run.device = device_of(p);
  try {
    f.memory = expected_memory(model, method, parameters(p.params), run, requests);
    f.memory_known = true;
    f.memory_guessed = !w.exact;
  } catch (const error& problem) {
    if (f.unknown.empty()) f.unknown = problem.what();
  }
}

std::string whole(double value) {
  return std::isfinite(value) ? fmt::format("{:.0f}", value) : "unknown";
}
std::string hours(double value) {
  if (!std::isfinite(value)) return "unknown";
  return value < 0.095 ? fmt::format("{:.2g}", value) : fmt::format("{:.1f}", value);
}
std::string hours_cell(const point_forecast& f) {
  if (!f.on_gpu) return "–";
  return (f.at_least && std::isfinite(f.gpu_hours) ? "at least " : "") + hours(f.gpu_hours);
}

std::string memory_cell(const point_forecast& f, const experiment_point& p) {
  if (runs_dry(p.run)) return "–";
  if (!f.memory_known) return "unknown";
  return fmt::format("{}{:.2f} + {:.2f} + {:.2f}", f.memory_guessed ? "~" : "",
                     f.memory.weights / 1e9, f.memory.kept / 1e9, f.memory.activations / 1e9);
}

std::string counted(std::size_t points) {
  return fmt::format("{} point{}", points, points == 1 ? "" : "s");
}

template <class format_value>
std::string told(const partial_sum& sum, bool at_least, format_value value) {
  if (sum.unknown == sum.points && sum.points > 0) return "unknown";
  std::string text = (sum.unknown > 0 || at_least ? "at least " : "") + value(sum.known);
  if (sum.unknown > 0) text += fmt::format("; {} unknown", counted(sum.unknown));
  return text;
}

}  // namespace

point_forecast forecast(const experiment_spec& spec, const experiment_point& p,
                        const device_ceilings& device) {
  pass_work w = pass_of(p);
  const method_info& method = method_registry::instance().find(p.method);
  const std::optional<model_config> config = config_of(p.model);
  const std::optional<recipe> made = config ? recipe_of(p, method, *config) : std::nullopt;
  if (w.exact && made) lay_out(*made, *config, w.each);
  const bool absolute = w.exact && config && config->attention == mask_kind::block_causal;
  const pass_sums all = sums_of(p, method, w, config ? config->block : 0, absolute);
  point_forecast f;
  f.items = w.answers;
  f.prompt_guessed = w.guessed;
  f.unknown = w.unknown == rows_unknown ? why_rows_are_unknown(p.model, config) : w.unknown;
  f.passes = static_cast<double>(spec.evidence.warmup + spec.evidence.min_repetitions);
  run_work run;
  run.answers = w.answers;
  run.batch = static_cast<double>(std::max<std::int64_t>(p.run.batch_size, 1));
  if (!w.each.empty() && all.count > 0) {
    run.prompt = f.prompt = all.prompt / all.count;
    run.generated = f.generated = all.generated / all.count;
    run.forwards = all.forwards / all.count;
  }
  const bool known = std::isfinite(w.answers) && !w.each.empty();
  if (p.workload.benchmark.kind == "likelihood") {
    const likelihood_draws drawn = draws_of(p.workload.benchmark, config && config->shifted_logits);
    const auto rows = static_cast<double>(drawn.rows), draws = static_cast<double>(drawn.samples);
    run.answers = w.answers * w.continuations * rows;
    run.batch = rows;
    run.forwards = std::max(draws / rows, 1.0);
    f.forwards = std::ceil(run.answers / run.batch) * run.forwards;
  } else if (known) {
    const bool prefills = method.shape.extent != row_extent::canvas && !method.shape.refreshes;
    f.forwards = most_forwards(p, all, prefills);
  }
  double seconds = not_known;
  if (config && known) {
    run = work_of(*config, method, parameters(p.params), run,
                  made ? made->rows->traits() : row_traits());
    run.ranks = static_cast<std::int32_t>(p.run.ranks);
    run.sum_element = sum_element_of(p.run);
    seconds = expected_seconds(*config, run, device);
  }
  expect_hours(p, w, seconds, config.has_value(), f);
  if (config && !runs_dry(p.run)) expect_memory(p, method, *config, w, f);
  return f;
}

void partial_sum::add(double value) {
  ++points;
  if (std::isfinite(value)) {
    known += value;
  } else {
    ++unknown;
  }
}

void partial_sum::add(const partial_sum& other) {
  known += other.known;
  unknown += other.unknown;
  points += other.points;
}

std::string partial_sum::text() const {
  return told(*this, false, whole);
}

std::string plan_forecast::hours_text() const {
  return gpu_hours.points == 0 ? "none" : told(gpu_hours, at_least, hours);
}

std::string plan_forecast::memory_text() const {
  if (gpu_hours.points == 0) return "none";
  if (memory_unknown == gpu_hours.points) return "unknown";
  std::string text = fmt::format("{}{:.1f} of {:.0f} GB", memory_unknown > 0 ? "at least " : "",
                                 most_memory / 1e9, card_memory / 1e9);
  if (memory_unknown > 0) text += fmt::format("; {} unknown", counted(memory_unknown));
  if (beyond_card > 0) text += fmt::format("; {} too large", counted(beyond_card));
  return text;
}

void plan_forecast::add(const point_forecast& f) {
  ++points;
  if (f.on_gpu && f.memory_known) {
    most_memory = std::max(most_memory, f.memory.bytes());
    if (f.memory.bytes() > card_memory) ++beyond_card;
  } else if (f.on_gpu) {
    ++memory_unknown;
  }
  answers.add(f.items * f.passes);
  forwards.add(f.forwards * f.passes);
  if (f.on_gpu) gpu_hours.add(f.gpu_hours);
  at_least = at_least || (f.on_gpu && f.at_least && std::isfinite(f.gpu_hours));
  work += f.work;
  for (const std::string& reason : {f.unknown, f.no_hours}) {
    if (!reason.empty()) ++why[reason];
  }
}

void plan_forecast::add(const plan_forecast& other) {
  points += other.points;
  answers.add(other.answers);
  forwards.add(other.forwards);
  gpu_hours.add(other.gpu_hours);
  at_least = at_least || other.at_least;
  most_memory = std::max(most_memory, other.most_memory);
  memory_unknown += other.memory_unknown;
  beyond_card += other.beyond_card;
  work += other.work;
  for (const auto& [reason, count] : other.why) why[reason] += count;
}

std::vector<std::string> plan_forecast::reasons() const {
  std::vector<std::string> all;
  for (const auto& [reason, count] : why) {
    all.push_back(counted(count) + ": " + reason);
  }
  return all;
}

plan_forecast forecast_of(const experiment_spec& spec, const std::vector<experiment_point>& points,
                          const device_ceilings& device) {
  plan_forecast sum(device);
  for (const experiment_point& p : points) sum.add(forecast(spec, p, device));
  return sum;
}

std::string forecast_table(const experiment_spec& spec, const std::vector<experiment_point>& points,
                           const device_ceilings& device) {
  std::string text =
      "| sweep point | model | task | answers | prompt | tokens | method | settings | batch | "
      "device | "
      "forward passes, at most | repetitions | GPU hours | memory: weights + KV + activations, GB "
      "|\n"
      "|---|---|---|---:|---:|---:|---|---|---:|---|---:|---:|---:|---:|\n";
  bool guessed = false, estimated = false;
  plan_forecast sum(device);
  for (const experiment_point& p : points) {
    const point_forecast f = forecast(spec, p, device);
    sum.add(f);
    guessed = guessed || f.prompt_guessed;
    text += fmt::format(
        "| {} | {} | {} | {} | {}{} | {} | {} | {} | {} | {} | {} | {:.0f} | {} | {} |\n", p.id,
        p.model.name, p.workload.name, whole(f.items), f.prompt_guessed ? "~" : "", whole(f.prompt),
        whole(f.generated), p.label, p.variation, p.run.batch_size, p.run.device, whole(f.forwards),
        f.passes, hours_cell(f), memory_cell(f, p));
    estimated = estimated || (f.memory_known && f.memory_guessed);
  }
  text += fmt::format(
      "\n{} points\nanswers: {}\nforwards at most: {}\nhours of one {} by a roofline: {}\n"
      "memory of one {}: {}\n",
      sum.points, sum.answers.text(), sum.forwards.text(), device.name, sum.hours_text(),
      device.name, sum.memory_text());
  for (const std::string& reason : sum.reasons()) text += reason + "\n";
  if (const std::string note = note_of_any_seed(points); !note.empty()) text += note + "\n";
  if (guessed) {
    text +=
        "~: the prompts of the benchmark are not written yet (unmask prompts); they are taken to "
        "be "
        "as long as the harness allows, or 1000 tokens\n";
  }
  if (estimated) text += "~ before GB: the lengths of prompts are estimated or means\n";
  return text;
}

}  // namespace unmask
