// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A point of kind "decode" or "serve": requests through the batching engine, once per pass. They differ
// in their arrivals, and in what of a pass is told: a closed batch is every item of the workload, there
// at the start, whose prompts enter in the forwards of the others.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/decode/registry.h"
#include "harness/engine/closed_loop.h"
#include "harness/engine/latency.h"
#include "harness/engine/loop_runner.h"
#include "harness/engine/trajectory.h"
#include "harness/measure/execute_parts.h"
#include "harness/measure/imposed_commits.h"
#include "harness/measure/probe.h"
#include "harness/measure/serve_metrics.h"
#include "harness/plan/published_decoding.h"
#include "harness/plan/serve_settings.h"
#include "harness/profile/phases.h"
#include "harness/rows/statistics.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr std::size_t enough_requests = 1000;  // for a P90, if their answers have one at all

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

// Keys of [serve] of a closed batch.
parameter_map closed_batch() {
  return resolve_parameters("[serve]", serve_parameters(),
                            {{"policy", "mixed"}, {"arrivals", "closed"}, {"requests", 0}});
}

// Decode forwards of a closed batch: tokens over the time of those forwards in which no prompt
// entered.
void decode_rate(const std::vector<iteration_record>& iterations, pass_record& pass) {
  double seconds = 0, committed = 0;
  for (const iteration_record& it : iterations) {
    if (it.prefill) continue;
    seconds += it.seconds;
    committed += static_cast<double>(it.committed);
  }
  if (seconds > 0) {
    pass.metrics["decode_tokens_per_second"] = {committed / seconds, origin::measured};
  }
}

class engine_point final : public loadable_point {
 public:
  engine_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
               std::shared_ptr<const loaded_workload> workload,
               std::shared_ptr<step_time_store> times)
      : loadable_point(std::move(model), std::move(workload)),
        method_(method_registry::instance().find(point.method)),
        served_(point.run.kind == "serve"),
        serve_(served_ ? point.run.serve : closed_batch()),
        places_(static_cast<std::int32_t>(point.run.batch_size)),
        seed_(static_cast<std::uint64_t>(point.run.seed)),
        dry_(runs_dry(point.run)),
        calibration_(method_, model_->config, point.params, places_,
                     model_key(point.model, point.run), std::move(times)) {
    if (workload_->requests.empty()) throw usage_error("the workload holds no requests");
    const recipe made = make();
    for (const sequence_request& r : workload_->requests) {
      lengths_.push_back(made.pace->canvas_length(model_->config, r));
      longest_ = std::max(longest_, lengths_.back());
    }
    if (longest_ > model_->config.max_positions) {
      throw usage_error(
          "a request needs " + std::to_string(longest_) + " positions, but " + model_->config.name +
          " was made for " + std::to_string(model_->config.max_positions) +
          (served_ ? "; set serve.max_prompt_tokens and serve.max_output_tokens" : ""));
    }
    objective_.tpot = parse_tpot(serve_.text("tpot"));
    objective_.tpot_seconds = serve_.real("slo_tpot_ms") / 1e3;
    objective_.ttfb_seconds = serve_.real("slo_ttfb_ms") / 1e3;
    objective_.trim = serve_.real("trim");
    if (serve_.flag("search") && objective_.tpot_seconds <= 0) {
      throw usage_error("serve: search needs slo_tpot_ms");
    }
    if (dry_ && serve_.text("clock") == "virtual" && serve_.text("cost").empty()) {
      throw usage_error("serve: without the model a virtual clock needs serve.cost");
    }
    impose_ = point.run.impose != "none";
    if (dry_ && impose_)
      throw usage_error("serve: `commits` leaves out the layers that `impose` needs");
    repeat_window_ = static_cast<std::int32_t>(point.run.repeat_window);
    ranks_ = imposes_ranks(point.run.impose, *model_);
    if (dry_ || impose_) {
      source_ = commits_of(dry_ ? serve_.text("commits") : point.run.impose, *workload_, lengths_,
                           model_->config, made.pace->shape().block, seed_);
    }
  }

  std::int32_t rows() const override {
    const recipe made = make();
    // More arrivals than requests ask these again, all places at once where need be.
    std::vector<sequence_request> requests = workload_->requests;
    for (std::size_t i = 0;
         served_ && !requests.empty() && requests.size() < static_cast<std::size_t>(places_); ++i) {
      requests.push_back(workload_->requests[i % workload_->requests.size()]);
    }
    std::int32_t rows = engine_rows(model_->config, *made.pace, requests, places_, prefill_tokens(),
                                    static_cast<std::int32_t>(serve_.integer("prefill_chunk")));
    if (!is_virtual() && !dry_) rows = std::max(rows, calibration_.rows());
    if (measures_cost()) {
      rows = std::max(rows, latency_rows(grid(), made.pace->shape().block));
    }
    return rows;
  }

  model_record model() const override {
    model_record record = loadable_point::model();
    const std::string departure = departure_of(model_->config, method_.name);
    if (!record.caution.empty() && !departure.empty()) record.caution += "; ";
    record.caution += departure;
    return record;
  }

  std::vector<active_knob> knobs() const override {
    return knobs_of(method_, calibration_.settings());
  }
  std::int32_t first_late_layer() const override {
    return make().rows->traits().first_late_layer();
  }
  parameter_map measured_settings() const override { return calibration_.filled(); }
  std::string calibration_report() const override { return calibration_.report(); }

  pass_size size() const override {
    pass_size all;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      all.positions +=
          lengths_[i] - static_cast<std::int64_t>(workload_->requests[i].prompt.size());
    }
    all.items = static_cast<std::int64_t>(lengths_.size());
    if (!served_) return all;
    const std::int64_t asked = serve_.integer("requests");  // the workload's, again and again
    if (asked > 0) all.positions = all.positions * asked / std::max<std::int64_t>(all.items, 1);
    return {asked > 0 ? asked : all.items, serve_.flag("search") ? 0 : all.positions};
  }
  void count_in(work_meter& meter) override { meter_ = &meter; }

  // The profile that a virtual clock was measured with, and the calibration.
  std::string memory() const override {
    const std::string learnt = calibration_.memory();
    if (!measured_ && learnt.empty()) return "";
    nlohmann::json out = {{"calibration", learnt}};
    if (measured_) {
      for (const table_cost::sample& s : measured_->samples()) {
        out["cost"].push_back({s.rows, s.seconds});
      }
    }
    return out.dump();
  }
  void remember(const std::string& memory) override {
    if (memory.empty()) return;
    const nlohmann::json in = nlohmann::json::parse(memory);
    const std::string learnt = in.at("calibration");
    std::shared_ptr<table_cost> measured;
    if (in.contains("cost")) {
      std::vector<table_cost::sample> samples;
      for (const auto& s : in.at("cost")) samples.push_back({s.at(0), s.at(1)});
      measured =
          std::make_shared<table_cost>(std::move(samples), cost_per_request(), cost_per_key());
    }
    if (!learnt.empty()) calibration_.remember(learnt);
    if (measured) measured_ = std::move(measured);
  }

  pass_record pass() override {
    // A method is calibrated against the cost model of a virtual clock, else against the model
    // itself. A dry run on a real clock has nothing to calibrate against.
    if (is_virtual() || !dry_) {
      calibration_.run(*model_->packed, is_virtual() ? cost().get() : nullptr);
    }
    const double rate = serve_.real("rate");
    pass_record pass;
    if (serve_.flag("search")) {
      capacity_values(pass.metrics);
      const auto found = pass.metrics.find("slo_capacity_requests_per_second");
      last_ = serve(found->second.value > 0 ? found->second.value : rate, seed_);
    } else {
      last_ = serve(rate, seed_);
    }
    pass.served = served_;
    pass.time = clock_origin();
    pass.seconds = last_.totals.seconds;
    static_cast<pass_totals&>(pass) = served_ ? counted_part(last_.loop) : last_.loop;
    if (served_) {
      pass.metrics.merge(
          serving_values(last_, objective_, pass.time, dry_ ? origin::synthetic : origin::counted));
    } else {
      decode_rate(last_.iterations, pass);
    }
    if (repeat_window_ > 0) {
      const auto stopped = std::ranges::count_if(
          last_.requests, [](const request_record& r) { return r.answer.repeats; });
      pass.metrics["repetition_stops"] = {static_cast<double>(stopped), origin::counted};
    }
    if (measured_) {
      for (const table_cost::sample& s : measured_->samples()) {
        const auto rows = static_cast<std::int64_t>(s.rows);
        pass.metrics["cost_of_" + std::to_string(rows) + "_rows_seconds"] = {s.seconds,
                                                                             origin::measured};
      }
    }
    for (const request_record& r : last_.requests) {
      if (r.end != outcome::finished) continue;
      const std::size_t item = r.request % workload_->requests.size();
      const auto prompt = static_cast<std::int64_t>(workload_->requests[item].prompt.size());
      answer_record answer{prompt, lengths_[item] - prompt, r.answer.output, r.answer.counters};
      answer.request = r.request;
      // In a closed batch, latency starts at admission: queueing depends on the batch size alone.
      answer.seconds = served_ ? e2e_of(r) : r.finish - r.admitted;
      answer.first_block_seconds = served_                     ? ttfb_of(r)
                                   : answer.work.committed > 0 ? r.first_decided - r.admitted
                                                               : 0;
      pass.answers.push_back(std::move(answer));
    }
    pass.clients_left = !is_virtual() && serve_.real("cancel_share") > 0;
    if (const std::string& log = serve_.text("log"); !log.empty()) {
      write_file(log, iteration_csv(last_.iterations));
    }
    return pass;
  }

  std::vector<scored_answer> score(const pass_record& pass) override {
    if (workload_->items.empty() || dry_ || impose_) return {};
    // An item that was asked several times counts once: the answers are the same.
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

  bool probe(const probe_settings& settings, std::ostream& out) override {
    if (served_) return false;
    std::vector<sequence_request> requests = workload_->requests;
    if (settings.limit > 0 && requests.size() > static_cast<std::size_t>(settings.limit)) {
      requests.resize(static_cast<std::size_t>(settings.limit));
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].id = static_cast<std::int64_t>(i);
    }
    const probe_source source = source_of(requests);
    probe_recorder recorder(settings, source, out);
    run_closed_loop(*model_->packed, method_, calibration_.settings(), requests, 1, &recorder);
    recorder.finish();
    return true;
  }

 private:
  // What the probes may ask about these requests.
  probe_source source_of(const std::vector<sequence_request>& requests) {
    probe_source source;
    if (model_->tokens) {
      source.text = [this](std::int32_t token) {
        const std::array<std::int32_t, 1> one = {token};
        return model_->tokens->decode(one, false);
      };
    }
    if (model_->tokens && workload_->items.size() >= requests.size()) {
      source.score = [this](std::size_t request, std::span<const std::int32_t> canvas) {
        // The libraries of a benchmark score whole passes, not canvases one by one.
        if (!is_own_scorer(workload_->items[request].scorer)) return std::optional<double>();
        answer_record answer;
        answer.tokens.assign(canvas.begin(), canvas.end());
        std::ranges::replace(answer.tokens, -1, model_->config.mask_id);
        const scored_answer s =
            score_answers(*model_, *workload_, {answer}, {request}, rules()).front();
        return s.scored ? std::optional<double>(s.value) : std::nullopt;
      };
    }
    source.again = [this, &requests](const trajectory_source& order) {
      return decode_again(*model_->packed, method_, calibration_.settings(), requests, &order);
    };
    source.reference = [this, &requests](std::int64_t block) {
      return decode_reference(*model_->packed, requests, block);
    };
    return source;
  }

  // Modelled times of decisions that no model took rest on nothing measured at all.
  origin clock_origin() const {
    if (!is_virtual()) return origin::measured;
    return dry_ ? origin::synthetic : origin::analytic;
  }
  bool is_virtual() const { return serve_.text("clock") == "virtual"; }
  bool measures_cost() const { return is_virtual() && serve_.text("cost").empty(); }
  std::int32_t prefill_tokens() const {
    return static_cast<std::int32_t>(serve_.integer("prefill_tokens"));
  }
  latency_grid grid() const {
    latency_grid g;
    std::erase_if(g.batches, [&](std::int32_t b) { return b > places_; });
    if (g.batches.back() < places_) g.batches.push_back(places_);
    g.context = std::min(256, longest_);
    return g;
  }

  recipe make() const { return method_.make(model_->config, calibration_.settings()); }

  // `longer`: arrivals last so many times serve.duration.
  std::vector<request_order> orders(double rate, std::uint64_t seed, double longer) const {
    std::vector<request_order> all;
    for (const double t : arrival_times(serve_, workload_->arrivals, workload_->requests.size(),
                                        rate, seed, longer)) {
      all.push_back({t});
    }
    add_cancellations(all, serve_, seed);
    return all;
  }

  double cost_per_request() const { return serve_.real("cost_per_request_ms") / 1e3; }
  double cost_per_key() const { return serve_.real("cost_per_key_us") / 1e6; }
  std::shared_ptr<const cost_model> cost() {
    if (!measures_cost()) {
      return std::make_shared<table_cost>(
          parse_cost(serve_.text("cost"), cost_per_request(), cost_per_key()));
    }
    // Once per point: every pass and every rate of a search runs on the same clock.
    if (!measured_) {
      const auto samples = measure_latency(
          *model_->packed, [&](std::int32_t) { return make(); }, grid());
      measured_ = std::make_shared<table_cost>(
          parse_cost(cost_of(samples).text(), cost_per_request(), cost_per_key()));
    }
    return measured_;
  }

  served_run serve(double rate, std::uint64_t seed, double longer = 1) {
    const std::vector<request_order> arrivals = orders(rate, seed, longer);
    const double overhead = serve_.real("step_overhead_ms") / 1e3;
    engine_settings settings;
    settings.policy = parse_batching(serve_.text("policy"));
    settings.prefill_tokens = prefill_tokens();
    settings.forwards_per_turn = static_cast<std::int32_t>(serve_.integer("forwards_per_turn"));
    const std::string& paging = serve_.text("paging");
    settings.grow_pages =
        paging == "grow" || (paging == "auto" && settings.policy == batching::lmd);
    settings.keep_on_preemption = serve_.text("recompute") == "keep";
    std::shared_ptr<const cost_model> model;
    if (is_virtual()) model = cost();
    settings.predictor = model.get();

    recipe method = make();
    if (dry_) method = with_trajectory(std::move(method), source_, filler_of(model_->config));
    if (impose_) {
      method = with_imposed(std::move(method), source_, model_->config, filler_of(model_->config),
                            ranks_);
    }
    const auto places = static_cast<std::int32_t>(std::min<std::size_t>(
        static_cast<std::size_t>(places_), std::max<std::size_t>(arrivals.size(), 1)));
    loop_runner runner(
        *model_->packed, std::move(method),
        {places, longest_, static_cast<std::int32_t>(serve_.integer("kv_pages")), dry_},
        [&](std::size_t i) {
          sequence_request r = workload_->requests[i % workload_->requests.size()];
          r.id = static_cast<std::int64_t>(i);
          return r;
        },
        static_cast<std::int32_t>(serve_.integer("prefill_chunk")), repeat_window_);
    step_loop& loop = runner.loop();
    trajectory_recorder recorder;
    const std::string& record = serve_.text("record");
    if (!record.empty()) loop.observe(&recorder);
    served_run run;
    keeping_sink sink(run, meter_);
    const phase_range range(profile_phase::run, static_cast<std::int64_t>(arrivals.size()));
    // Recording is what an engine does when it starts: the real clock stands still meanwhile.
    engine_clock clock = model ? engine_clock(model, overhead)
                               : engine_clock(overhead, [&] { return loop.graphs().seconds; });
    run.totals = run_engine(runner, arrivals, settings, clock, sink);
    std::ranges::sort(run.requests, {}, &request_record::request);
    calibration_.keep(loop.pace().learnt());
    run.loop = loop.totals();
    // Without layers the loop keeps pages of one small layer: slots, not bytes, are the model's.
    if (const kv_cache& cache = loop.cache(); dry_ && cache.page_bytes() > 0) {
      const std::size_t pages = cache.peak_bytes() / cache.page_bytes();
      // A scratch is one layer for all.
      const auto layers =
          cache.uses_scratch(0) ? static_cast<std::size_t>(model_->record.layers) : 1;
      run.loop.peak_kv_bytes = pages * kv_page_size * model_->kv_bytes_per_slot / layers;
    }
    if (!record.empty()) recorder.save(record);
    return run;
  }

  // One run of a search. Where serve.duration brings too few requests for a P90, they go on arriving
  // for twice as long, and again; a fixed number of requests is the user's to raise.
  rate_result at_rate(double rate, std::uint64_t seed) {
    const bool by_time = serve_.integer("requests") == 0 && serve_.real("duration") > 0 &&
                         serve_.text("arrivals") != "trace";
    for (double longer = 1;; longer *= 2) {
      const served_run run = serve(rate, seed, longer);
      std::vector<double> tpot;
      bool all = true;
      for (const request_record* r : counted_requests(run, objective_.trim)) {
        all = all && r->end == outcome::finished;
        tpot.push_back(tpot_of(*r, objective_.tpot));
      }
      std::erase_if(tpot, [](double v) { return !std::isfinite(v); });
      const double arrived = run.requests.empty() ? 0 : run.requests.back().arrival;
      if (percentile_earned(0.9, tpot.size())) {
        return {percentile_of(tpot, 0.9), all, backlog_of(run.requests).growing,
                run.totals.seconds > 2 * arrived, each_is_alone(run.requests)};
      }
      if (!by_time || run.requests.size() > enough_requests) {
        throw usage_error("serve: " + std::to_string(tpot.size()) +
                          " requests are too few for a P90; raise serve." +
                          (by_time ? "duration" : "requests"));
      }
    }
  }

  void capacity_values(std::map<std::string, metric>& into) {
    std::vector<double> found;
    double tested = 0, backlogs = 0, unbounded = 0;
    int runs = 0;
    const auto seeds = static_cast<std::uint64_t>(serve_.integer("search_seeds"));
    for (std::uint64_t s = 0; s < seeds; ++s) {
      const capacity c =
          find_capacity([&](double rate) { return at_rate(rate, seed_ + s); },
                        objective_.tpot_seconds, serve_.real("rate"), serve_.real("search_step"));
      found.push_back(c.rate);
      tested += c.tested_ok / static_cast<double>(seeds);
      backlogs += c.backlog / static_cast<double>(seeds);
      unbounded += !c.bounded / static_cast<double>(seeds);
      runs += c.runs;
    }
    const origin from = clock_origin();
    const double mean = mean_of(found);
    into["slo_capacity_requests_per_second"] = {mean, from, found};
    into["slo_capacity_backlog_share"] = {backlogs, from};
    if (unbounded > 0) into["slo_capacity_unbounded_share"] = {unbounded, from};
    into["slo_capacity_tested_requests_per_second"] = {tested, from};
    into["slo_capacity_runs"] = {static_cast<double>(runs), origin::counted};
    if (found.size() > 1 && mean > 0) {
      into["slo_capacity_half_width"] = {relative_half_width(found), from};
    }
  }

  const method_info& method_;
  bool served_;  // kind "serve"
  parameters serve_;
  std::int32_t places_;
  std::uint64_t seed_;
  bool dry_;
  bool impose_ = false, ranks_ = false;
  std::int32_t repeat_window_ = 0;  // of loop_runner
  point_calibration calibration_;
  std::vector<std::int32_t> lengths_;  // positions of each request of the workload
  std::int32_t longest_ = 1;
  serving_objective objective_;
  trajectory_source source_;
  std::shared_ptr<const table_cost> measured_;
  work_meter* meter_ = nullptr;
  served_run last_;
};

}  // namespace

std::unique_ptr<loadable_point> make_engine_point(const experiment_point& point,
                                                  std::shared_ptr<const loaded_model> model,
                                                  std::shared_ptr<const loaded_workload> workload,
                                                  std::shared_ptr<step_time_store> times) {
  return std::make_unique<engine_point>(point, std::move(model), std::move(workload),
                                        std::move(times));
}

}  // namespace unmask
