// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/measure/loaded_point.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/decode/interpreted.h"
#include "harness/engine/loop_runner.h"
#include "harness/measure/imposed_commits.h"
#include "harness/measure/pictures/shown.h"
#include "harness/plan/published_decoding.h"
#include "harness/plan/serve_settings.h"
#include "harness/profile/phases.h"

namespace unmask {
namespace {

class keeping_sink final : public engine_sink {
 public:
  // `meter` may be null: nobody follows.
  keeping_sink(served_run& into, work_meter* meter) : into_(into), meter_(meter) {}
  void on_request(request_record&& record) override {
    if (meter_) meter_->items.fetch_add(1, std::memory_order_relaxed);
    into_.requests.push_back(std::move(record));
  }
  void on_iteration(const iteration_record& it) override {
    if (meter_) meter_->tokens.fetch_add(it.committed, std::memory_order_relaxed);
    into_.iterations.push_back(it);
  }

 private:
  served_run& into_;
  work_meter* meter_;
};

// The most rows that the picture of one request takes.
std::int32_t picture_rows_of(const loaded_workload& workload) {
  if (!workload.pictures || !workload.pictures->computes()) return 0;
  return std::ranges::max(workload.pictures->rows());
}

// Without layers the loop keeps pages of one small layer: slots, not bytes, are the model's.
std::size_t kv_bytes_of_model(const kv_cache& cache, const loaded_model& model) {
  const std::size_t pages = cache.peak_bytes() / cache.page_bytes();
  // A scratch is one layer for all.
  const auto layers = cache.uses_scratch(0) ? static_cast<std::size_t>(model.record.layers) : 1;
  return pages * kv_page_size * model.kv_bytes_per_slot / layers;
}

}  // namespace

loaded_point::loaded_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
                           std::shared_ptr<const loaded_workload> workload,
                           std::shared_ptr<step_time_store> times, const std::string& shorten)
    : sized_point(std::move(model), std::move(workload)),
      method_(method_registry::instance().find(point.method)),
      places_(static_cast<std::int32_t>(point.run.batch_size)),
      seed_(static_cast<std::uint64_t>(point.run.seed)),
      dry_(runs_dry(point.run)),
      calibration_(method_, model_->config, point.params, places_,
                   model_key(point.model, point.run), std::move(times)),
      impose_(point.run.impose != "none"),
      repeat_window_(static_cast<std::int32_t>(point.run.repeat_window)) {
  if (workload_->requests.empty()) throw usage_error("the workload holds no requests");
  const recipe made = make();
  for (const sequence_request& r : workload_->requests) {
    lengths_.push_back(made.pace->canvas_length(model_->config, r));
    longest_ = std::max(longest_, lengths_.back());
  }
  if (longest_ > model_->config.max_positions) {
    throw usage_error("a request needs " + std::to_string(longest_) + " positions, but " +
                      model_->config.name + " was made for " +
                      std::to_string(model_->config.max_positions) + shorten);
  }
  if (dry_ && impose_)
    throw usage_error("serve: `commits` leaves out the layers that `impose` needs");
  ranks_ = imposes_ranks(point.run.impose, *model_);
  if (dry_ || impose_) {
    const std::string from = dry_ ? parameters(point.run.serve).text("commits") : point.run.impose;
    source_ =
        commits_of(from, *workload_, lengths_, model_->config, made.pace->shape().block, seed_);
  }
}

model_record loaded_point::model() const {
  model_record record = sized_point::model();
  const std::string departure = departure_of(model_->config, method_.name);
  if (!record.caution.empty() && !departure.empty()) record.caution += "; ";
  record.caution += departure;
  if (is_interpreted(method_)) {
    if (!record.caution.empty()) record.caution += "; ";
    record.caution +=
        "the rule ran in Python: its speed is not that of a compiled rule (rule_seconds)";
  }
  return record;
}

std::vector<active_knob> loaded_point::knobs() const {
  return knobs_of(method_, calibration_.settings());
}

std::int32_t loaded_point::first_late_layer() const {
  return make().rows->traits().first_late_layer();
}

pass_size loaded_point::size() const {
  pass_size all;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    all.positions += lengths_[i] - static_cast<std::int64_t>(workload_->requests[i].prompt.size());
  }
  all.items = static_cast<std::int64_t>(lengths_.size());
  return all;
}

std::string loaded_point::memory() const {
  const std::string learnt = calibration_.memory();
  if (learnt.empty()) return "";
  return nlohmann::json{{"calibration", learnt}}.dump();
}

void loaded_point::remember(const std::string& memory) {
  if (memory.empty()) return;
  const std::string learnt = nlohmann::json::parse(memory).at("calibration");
  if (!learnt.empty()) calibration_.remember(learnt);
}

std::vector<scored_answer> loaded_point::score(const pass_record& pass) {
  if (workload_->items.empty() || dry_ || impose_) return {};
  std::vector<answer_record> answers;
  std::vector<std::size_t> items;
  std::set<std::size_t> seen;
  for (const answer_record& answer : pass.answers) {
    const std::size_t item = answer.request % workload_->requests.size();
    if (!seen.insert(item).second) continue;
    answers.push_back(answer);
    items.push_back(item);
  }
  return score_answers(*model_, *workload_, answers, items, rules());
}

recipe loaded_point::make() const {
  return method_.make(model_->config, calibration_.settings());
}

recipe loaded_point::recipe_of_run() const {
  const std::int32_t filler = filler_of(model_->config);
  if (dry_) return with_trajectory(make(), source_, filler);
  if (impose_) return with_imposed(make(), source_, model_->config, filler, ranks_);
  return make();
}

served_run loaded_point::run(const engine_order& order) {
  served_run done;
  run(order, done);
  return done;
}

void loaded_point::run(const engine_order& order, served_run& done) {
  const std::size_t requests = std::max<std::size_t>(order.arrivals.size(), 1);
  const auto places =
      static_cast<std::int32_t>(std::min(static_cast<std::size_t>(places_), requests));
  const bool real_clock = order.cost == nullptr;
  const auto request_of = [&](std::size_t i) { return order.first + i * order.every; };
  picture_source pictures;
  if (picture_rows_of(*workload_) > 0) {
    pictures = [&, real_clock](std::size_t i) {
      shown_pictures shown = workload_->pictures->show(request_of(i) % workload_->requests.size());
      done.pictures.tower_runs += shown.tower_runs;
      done.pictures.flops += shown.flops;
      if (real_clock) done.pictures.seconds += shown.seconds;
      return std::move(shown.rows);
    };
  }
  loop_runner runner(
      *model_->packed, recipe_of_run(),
      {places, longest_, order.kv_pages, dry_, picture_rows_of(*workload_)},
      [&](std::size_t i) {
        sequence_request r = workload_->requests[request_of(i) % workload_->requests.size()];
        r.id = static_cast<std::int64_t>(request_of(i));
        return r;
      },
      order.prefill_chunk, repeat_window_, std::move(pictures));
  step_loop& loop = runner.loop();
  loop.observe(order.observer);
  engine_settings settings = order.settings;
  settings.predictor = order.cost.get();
  keeping_sink sink(done, meter_);
  const phase_range range(profile_phase::run, static_cast<std::int64_t>(order.arrivals.size()));
  // Recording is what an engine does when it starts: the real clock stands still meanwhile.
  engine_clock clock = order.cost
                           ? engine_clock(order.cost, order.overhead)
                           : engine_clock(order.overhead, [&] { return loop.graphs().seconds; });
  rank_group* ranks = model_->run.ranks > 1 ? current_ranks() : nullptr;
  const rank_traffic before = ranks != nullptr ? ranks->traffic() : rank_traffic{};
  const machine_watch watch;
  done.totals = run_engine(runner, order.arrivals, settings, clock, sink);
  done.use = watch.stop();
  for (request_record& r : done.requests) r.request = request_of(r.request);
  std::ranges::sort(done.requests, {}, &request_record::request);
  calibration_.keep(loop.pace().learnt());
  done.loop = loop.totals();
  if (dry_ && loop.cache().page_bytes() > 0) {
    done.loop.peak_kv_bytes = kv_bytes_of_model(loop.cache(), *model_);
  }
  if (ranks != nullptr) sum_up_ranks(*ranks, before, done);
}

void loaded_point::sum_up_ranks(rank_group& ranks, const rank_traffic& before,
                                served_run& done) const {
  const rank_traffic& now = ranks.traffic();
  struct numbers {
    std::uint64_t kv_bytes, weight_bytes;
    double seconds;
  };
  const double sums = now.seconds - before.seconds;
  const numbers mine = {done.loop.peak_kv_bytes, model_->packed->weight_bytes(),
                        done.loop.step_seconds - sums};
  done.ranks = rank_work{.sum_calls = static_cast<std::int64_t>(now.calls - before.calls),
                         .sum_bytes = static_cast<std::int64_t>(now.bytes - before.bytes),
                         .sum_seconds = sums,
                         .transport = ranks.transport(),
                         .machines = ranks.machines()};
  std::vector<numbers> all(static_cast<std::size_t>(ranks.size()));
  ranks.gather(&mine, sizeof mine, all.data());
  std::size_t kv_bytes = 0;
  double fastest = mine.seconds, slowest = mine.seconds;
  for (const numbers& of : all) {
    kv_bytes += of.kv_bytes;
    done.ranks->kv_bytes = std::max<std::size_t>(done.ranks->kv_bytes, of.kv_bytes);
    done.ranks->weight_bytes = std::max<std::size_t>(done.ranks->weight_bytes, of.weight_bytes);
    fastest = std::min(fastest, of.seconds);
    slowest = std::max(slowest, of.seconds);
  }
  done.loop.peak_kv_bytes = kv_bytes;
  if (fastest > 0) done.ranks->skew = slowest / fastest;
}

answer_record loaded_point::answer_of(const request_record& request) const {
  const std::size_t item = request.request % workload_->requests.size();
  const auto prompt = static_cast<std::int64_t>(workload_->requests[item].prompt.size());
  answer_record answer{prompt, lengths_[item] - prompt, request.answer.output,
                       request.answer.counters};
  answer.request = request.request;
  return answer;
}

void loaded_point::count_repetitions(const served_run& run, pass_record& pass) const {
  if (repeat_window_ <= 0) return;
  const auto stopped =
      std::ranges::count_if(run.requests, [](const request_record& r) { return r.answer.repeats; });
  pass.metrics["repetition_stops"] = {static_cast<double>(stopped), origin::counted};
}

void loaded_point::count_pictures(const served_run& run, pass_record& pass) const {
  if (!workload_->pictures) return;
  const std::vector<std::int32_t>& rows = workload_->pictures->rows();
  std::int64_t shown = 0;
  for (const request_record& r : run.requests) {
    if (r.end == outcome::finished) shown += rows[r.request % rows.size()];
  }
  pass.metrics["picture_rows"] = {static_cast<double>(shown), origin::counted};
  pass.metrics["tower_runs"] = {static_cast<double>(run.pictures.tower_runs), origin::counted};
  if (run.pictures.tower_runs == 0) return;
  pass.metrics["picture_flops"] = {run.pictures.flops, origin::analytic};
  // A virtual clock does not see the tower.
  if (run.pictures.seconds > 0) {
    pass.metrics["picture_seconds"] = {run.pictures.seconds, origin::measured};
  }
}

void loaded_point::count_ranks(const served_run& run, pass_record& pass) const {
  if (!run.ranks) return;
  const rank_work& of = *run.ranks;
  const auto put = [&](const char* name, auto value, origin from) {
    pass.metrics[name] = {static_cast<double>(value), from};
  };
  pass.topology = {of.machines, of.transport, ""};
  put("sum_calls", of.sum_calls, origin::counted);
  put("sum_bytes", of.sum_bytes, origin::counted);
  put("weights_bytes_per_rank", of.weight_bytes, origin::counted);
  put("peak_kv_bytes_per_rank", of.kv_bytes, origin::counted);
  // A virtual clock does not see them, and a GPU does not tell them from its kernels.
  if (pass.time != origin::measured || of.sum_seconds == 0) return;
  if (const double whole = run.loop.all_seconds(); whole > 0) {
    put("sum_share", of.sum_seconds / whole, origin::measured);
  }
  if (of.skew > 0) put("rank_skew", of.skew, origin::measured);
}

void loaded_point::time_rule(const served_run& run, pass_record& pass) const {
  if (!is_interpreted(method_)) return;
  pass.metrics["rule_seconds"] = {run.loop.rule_seconds, origin::measured};
}

}  // namespace unmask
