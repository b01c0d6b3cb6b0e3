// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A point of kind "serve": the workload's requests arrive as [serve] says and are scheduled by its
// policy, on the machine's own clock or on a virtual one. It tells latencies, goodput and, if asked, the
// highest rate (capacity.h).
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/devices/device.h"
#include "harness/engine/latency.h"
#include "harness/engine/loop_runner.h"
#include "harness/measure/capacity.h"
#include "harness/measure/loaded_point.h"
#include "harness/measure/pictures/shown.h"
#include "harness/plan/expected_memory.h"
#include "harness/plan/expected_time.h"
#include "harness/plan/serve_settings.h"

namespace unmask {
namespace {

// The model itself, of which a run without layers loads the shape alone.
model_config config_of(const experiment_point& point) {
  model_config config = read_model_config(point.model.path);
  if (point.model.layers > 0) config.layers = static_cast<std::int32_t>(point.model.layers);
  return config;
}

// Null where the clock names no GPU.
std::shared_ptr<const cost_model> cost_of_card(const experiment_point& point) {
  const std::string cost = parameters(point.run.serve).text("cost");
  if (!names_card(cost)) return nullptr;
  return unmask::cost_of_card(config_of(point), point.run, ceilings_of(cost));
}

serving_objective objective_of(const parameters& serve) {
  serving_objective o;
  o.tpot = parse_tpot(serve.text("tpot"));
  o.tpot_seconds = serve.real("slo_tpot_ms") / 1e3;
  o.ttfb_seconds = serve.real("slo_ttfb_ms") / 1e3;
  o.trim = serve.real("trim");
  return o;
}

// The clock of [serve]. A virtual one takes its times from serve.cost or, without that, from a profile
// that is measured once per point, so that every pass and every rate of a search runs on the same.
class serve_clock {
 public:
  // `card`: of a clock that names one.
  serve_clock(const parameters& serve, std::shared_ptr<const cost_model> card)
      : card_(std::move(card)),
        virtual_(serve.text("clock") == "virtual"),
        cost_(serve.text("cost")),
        per_request_(serve.real("cost_per_request_ms") / 1e3),
        per_key_(serve.real("cost_per_key_us") / 1e6) {}

  bool is_virtual() const { return virtual_; }
  bool is_profiled() const { return virtual_ && cost_.empty(); }
  // Null on the real clock.
  std::shared_ptr<const cost_model> cost(
      const std::function<std::vector<latency_sample>()>& profile) {
    if (!virtual_) return nullptr;
    if (card_) return card_;
    if (!is_profiled()) return made_of(cost_);
    if (!measured_) measured_ = made_of(cost_of(profile()).text());
    return measured_;
  }
  // The profile; empty until it was measured.
  std::vector<table_cost::sample> samples() const {
    return measured_ ? measured_->samples() : std::vector<table_cost::sample>{};
  }
  void remember(std::vector<table_cost::sample> samples) {
    measured_ = std::make_shared<table_cost>(std::move(samples), per_request_, per_key_);
  }

 private:
  std::shared_ptr<const table_cost> made_of(const std::string& text) const {
    return std::make_shared<table_cost>(parse_cost(text, per_request_, per_key_));
  }
  std::shared_ptr<const cost_model> card_;
  bool virtual_;
  std::string cost_;
  double per_request_, per_key_;
  std::shared_ptr<const table_cost> measured_;
};

class serve_point final : public loaded_point {
 public:
  serve_point(const experiment_point& point, std::shared_ptr<const loaded_model> model,
              std::shared_ptr<const loaded_workload> workload,
              std::shared_ptr<step_time_store> times)
      : loaded_point(point, std::move(model), std::move(workload), std::move(times),
                     "; set serve.max_prompt_tokens and serve.max_output_tokens"),
        serve_(point.run.serve),
        objective_(objective_of(serve_)),
        clock_(serve_, cost_of_card(point)) {
    if (serve_.flag("search") && objective_.tpot_seconds <= 0) {
      throw usage_error("serve: search needs slo_tpot_ms");
    }
    if (dry_ && clock_.is_profiled()) {
      throw usage_error("serve: without the model a virtual clock needs serve.cost");
    }
  }

  std::int32_t rows() const override {
    const recipe made = make();
    // More arrivals than requests ask these again, all places at once if need be.
    std::vector<sequence_request> requests = workload_->requests;
    for (std::size_t i = 0; requests.size() < static_cast<std::size_t>(places_); ++i) {
      requests.push_back(workload_->requests[i % workload_->requests.size()]);
    }
    std::int32_t rows = engine_rows(model_->config, *made.pace, requests, places_,
                                    whole("prefill_tokens"), whole("prefill_chunk"));
    if (!clock_.is_virtual() && !dry_) rows = std::max(rows, calibration_.rows());
    if (clock_.is_profiled()) {
      rows = std::max(rows, latency_rows(
                                model_->config, [&](std::int32_t) { return make(); }, grid()));
    }
    return rows;
  }

  pass_size size() const override {
    const pass_size once = loaded_point::size();
    const std::int64_t asked = serve_.integer("requests");  // the workload's, again and again
    const std::int64_t items = asked > 0 ? asked : once.items;
    if (serve_.flag("search")) return {items, 0};
    return {items, once.positions * items / std::max<std::int64_t>(once.items, 1)};
  }

  // JSON object with the profile of the clock too.
  std::string memory() const override {
    if (clock_.samples().empty()) return loaded_point::memory();
    nlohmann::json out = {{"calibration", calibration_.memory()}};
    for (const table_cost::sample& s : clock_.samples()) out["cost"].push_back({s.rows, s.seconds});
    return out.dump();
  }
  void remember(const std::string& memory) override {
    serve_clock clock = clock_;  // nothing is taken up of a memory that is damaged in part
    if (!memory.empty()) {
      const nlohmann::json in = nlohmann::json::parse(memory);
      std::vector<table_cost::sample> samples;
      for (const auto& s : in.value("cost", nlohmann::json::array())) {
        samples.push_back({s.at(0), s.at(1)});
      }
      if (in.contains("cost")) clock.remember(std::move(samples));
    }
    loaded_point::remember(memory);
    clock_ = std::move(clock);
  }

  // The requests of the last pass, if [serve] keeps them.
  std::map<std::string, std::string> measured_reports() const override {
    auto all = loaded_point::measured_reports();
    if (!requests_.empty()) all.emplace("requests", requests_);
    return all;
  }

  pass_record pass() override {
    // A method is calibrated against the cost model of a virtual clock, else against the model
    // itself. A dry run on a real clock has nothing to calibrate against.
    if (clock_.is_virtual() || !dry_) calibration_.run(*model_->packed, cost().get());
    pass_record pass;
    pass.served = true;
    pass.time = clock_origin();
    pass.clients_left = !clock_.is_virtual() && serve_.real("cancel_share") > 0;
    pass.answers_vary = !clock_.is_virtual() && make().pace->shape().by_load;
    const served_run done = serve(rate_of_pass(pass), seed_, 1);
    pass.seconds = done.totals.seconds;
    pass.use = done.use;
    static_cast<pass_totals&>(pass) = counted_part(done.loop);
    pass.metrics.merge(
        serving_values(done, objective_, pass.time, dry_ ? origin::synthetic : origin::counted));
    for (const auto& [name, rate] : done.rates) pass.metrics[name] = {rate, pass.time};
    count_repetitions(done, pass);
    count_pictures(done, pass);
    count_ranks(done, pass);
    time_rule(done, pass);
    if (serve_.flag("keep_requests")) requests_ = request_times(done.requests);
    for (const table_cost::sample& s : clock_.samples()) {
      const auto rows = static_cast<std::int64_t>(s.rows);
      pass.metrics["cost_of_" + std::to_string(rows) + "_rows_seconds"] = {s.seconds,
                                                                           origin::measured};
    }
    for (const request_record& r : done.requests) {
      if (r.end != outcome::finished) continue;
      answer_record answer = answer_of(r);
      answer.seconds = e2e_of(r);
      answer.first_block_seconds = ttfb_of(r);
      pass.answers.push_back(std::move(answer));
    }
    if (const std::string& log = serve_.text("log"); !log.empty()) {
      replace_file(log, iteration_csv(done.iterations));
    }
    return pass;
  }

 private:
  // The rate that was searched, whose values it adds to the pass, else that of [serve].
  double rate_of_pass(pass_record& pass) {
    const double rate = serve_.real("rate");
    if (!serve_.flag("search")) return rate;
    add_capacity(
        pass.metrics, serve_, objective_, seed_, pass.time,
        [&](double r, std::uint64_t seed, double longer) { return serve(r, seed, longer); });
    const double found = pass.metrics.at("slo_capacity_requests_per_second").value;
    return found > 0 ? found : rate;
  }

  // Modelled times of decisions that no model took rest on nothing measured at all.
  origin clock_origin() const {
    if (!clock_.is_virtual()) return origin::measured;
    return dry_ ? origin::synthetic : origin::analytic;
  }

  std::int32_t whole(const char* key) const {
    return static_cast<std::int32_t>(serve_.integer(key));
  }

  latency_grid grid() const {
    latency_grid g;
    std::erase_if(g.batches, [&](std::int32_t b) { return b > places_; });
    if (g.batches.back() < places_) g.batches.push_back(places_);
    g.context = std::min(256, longest_);
    for (const sequence_request& r : workload_->requests) {
      g.answer_unit = std::max(g.answer_unit, r.gen_length);
    }
    return g;
  }

  std::shared_ptr<const cost_model> cost() {
    return clock_.cost([&] {
      return measure_latency(
          *model_->packed, [&](std::int32_t) { return make(); }, grid());
    });
  }

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

  served_run serve(double rate, std::uint64_t seed, double longer) {
    engine_order order;
    order.arrivals = orders(rate, seed, longer);
    order.settings.policy = parse_batching(serve_.text("policy"));
    order.settings.prefill_tokens = whole("prefill_tokens");
    order.settings.forwards_per_turn = whole("forwards_per_turn");
    const std::string& paging = serve_.text("paging");
    order.settings.grow_pages =
        paging == "grow" || (paging == "auto" && order.settings.policy == batching::lmd);
    order.settings.keep_on_preemption = serve_.text("recompute") == "keep";
    order.kv_pages = whole("kv_pages");
    order.prefill_chunk = whole("prefill_chunk");
    order.cost = cost();
    order.overhead = serve_.real("step_overhead_ms") / 1e3;
    trajectory_recorder recorder;
    const std::string& record = serve_.text("record");
    if (!record.empty()) order.observer = &recorder;
    served_run done = run_engines(std::move(order));
    if (!record.empty()) recorder.save(record);
    return done;
  }

  // Engines know nothing of each other: on a virtual clock one runs after the other.
  served_run run_engines(engine_order order) {
    const auto engines = static_cast<std::size_t>(serve_.integer("replicas"));
    if (engines == 1) return run(order);
    const std::vector<request_order> arrivals = std::move(order.arrivals);
    std::vector<served_run> all;
    order.every = engines;
    for (order.first = 0; order.first < engines; ++order.first) {
      order.arrivals.clear();
      for (std::size_t i = order.first; i < arrivals.size(); i += engines) {
        order.arrivals.push_back(arrivals[i]);
      }
      all.push_back(run(order));
    }
    return together(std::move(all), objective_);
  }

  parameters serve_;
  serving_objective objective_;
  serve_clock clock_;
  std::string requests_;  // request_times() of the last pass
};

}  // namespace

void check_card(const experiment_point& point, const loaded_workload& workload) {
  if (point.run.kind != "serve") return;
  const std::string cost = parameters(point.run.serve).text("cost");
  if (!names_card(cost)) return;
  const device_ceilings& card = ceilings_of(cost);
  const model_config config = config_of(point);
  run_settings run = point.run;
  run.device = "cuda";
  run.format = "bf16";
  check_share(config, share_of(0, run), weight_format_of(run));
  std::vector<sequence_request> widest = workload.requests;
  std::ranges::stable_sort(widest, std::ranges::greater{}, [](const sequence_request& r) {
    return r.prompt.size() + static_cast<std::size_t>(r.gen_length);
  });
  const auto places = static_cast<std::size_t>(std::max<std::int64_t>(run.batch_size, 1));
  if (widest.size() > places) widest.resize(places);
  run_memory memory = expected_memory(config, method_registry::instance().find(point.method),
                                      parameters(point.params), run, widest);
  if (workload.pictures) memory.weights += workload.pictures->tower_bytes(config.hidden);
  if (memory.bytes() <= card.memory_bytes) return;
  constexpr double gib = 1 << 30;
  throw usage_error(
      fmt::format("{} on {} needs {:.1f} GiB of weights and {:.1f} GiB besides on each GPU, and "
                  "the {} has {:.1f}",
                  config.name, run.ranks == 1 ? "1 rank" : fmt::format("{} ranks", run.ranks),
                  memory.weights / gib, (memory.bytes() - memory.weights) / gib, card.name,
                  card.memory_bytes / gib));
}

std::unique_ptr<sized_point> make_serve_point(const experiment_point& point,
                                              std::shared_ptr<const loaded_model> model,
                                              std::shared_ptr<const loaded_workload> workload,
                                              std::shared_ptr<step_time_store> times) {
  return std::make_unique<serve_point>(point, std::move(model), std::move(workload),
                                       std::move(times));
}

}  // namespace unmask
