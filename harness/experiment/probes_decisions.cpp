// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes that need decisions only: every candidate's arg-max, confidence and fate, step by step.
#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/experiment/probe_maths.h"
#include "harness/experiment/probes.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

class confidence_probe final : public decision_probe {
 public:
  std::string result() const override {
    json recall = json::array();
    for (const probe_maths::recall_count& r : recall_) {
      recall.push_back(
          r.tokens > 0 ? json(rounded(static_cast<double>(r.hits) / static_cast<double>(r.tokens)))
                       : json());
    }
    json points = json::array();
    const std::size_t n = pairs_.now.size(), stride = std::max<std::size_t>(1, n / shown);
    for (std::size_t i = 0; i < n; i += stride) {
      points.push_back({rounded(pairs_.before[i]), rounded(pairs_.now[i])});
    }
    return json{{"requests", requests_},
                {"steps", steps_},
                {"pairs", n},
                {"correlation", rounded(probe_maths::correlation(pairs_.before, pairs_.now))},
                {"recall", {{"k", tops}, {"value", recall}, {"tokens", recall_.front().tokens}}},
                {"points", points}}
        .dump();
  }

 private:
  void add(const probe_maths::decision_trace& trace) override {
    const probe_maths::confidence_pairs more = probe_maths::pairs_of(trace);
    pairs_.before.insert(pairs_.before.end(), more.before.begin(), more.before.end());
    pairs_.now.insert(pairs_.now.end(), more.now.begin(), more.now.end());
    for (std::size_t i = 0; i < tops.size(); ++i) {
      const probe_maths::recall_count r = probe_maths::recall_of_top(trace, tops[i]);
      recall_[i].hits += r.hits;
      recall_[i].tokens += r.tokens;
    }
  }

  static constexpr std::size_t shown = 400;  // points of the scatter plot
  const std::vector<std::int32_t> tops = {1, 2, 4, 8, 16};
  std::vector<probe_maths::recall_count> recall_ = std::vector<probe_maths::recall_count>(5);
  probe_maths::confidence_pairs pairs_;
};

class stagnation_probe final : public decision_probe {
 public:
  stagnation_probe(const probe_settings& s, const probe_source& source)
      : tau_(s.tau), margin_(s.margin), score_(source.score) {}

  std::string result() const override {
    std::vector<double> active;
    for (const std::int64_t n : active_) {
      active.push_back(rounded(static_cast<double>(n) / static_cast<double>(requests_)));
    }
    return json{{"requests", requests_},
                {"steps", steps_},
                {"tau", tau_},
                {"stagnant", stagnant_.part},
                {"active", stagnant_.whole},
                {"share", stagnant_.value()},
                {"share_ci95", probe_maths::interval_of_share(stagnant_of_)},
                {"share_items", pairs(stagnant_of_)},
                {"missed_stable",
                 {{"stable", missed_.whole},
                  {"missed", missed_.part},
                  {"share", missed_.value()},
                  {"share_ci95", probe_maths::interval_of_share(missed_of_)},
                  {"share_items", pairs(missed_of_)},
                  {"step_mean", step_share_.value()},
                  {"step_max", step_share_max_},
                  {"sample_mean", sample_share_.value()},
                  {"sample_max", sample_share_max_}}},
                {"decline",
                 {{"margin", margin_},
                  {"decided", decline_.decided},
                  {"declined", decline_.declined},
                  {"share", ratio(decline_.declined, decline_.decided)},
                  {"share_ci95", probe_maths::interval_of_share(declined_of_)},
                  {"share_items", pairs(declined_of_)},
                  {"other_token", decline_.other_token},
                  {"other_token_share", ratio(decline_.other_token, decline_.declined)},
                  {"scored", better_.scored()},
                  {"committed_better", better_.first_better},
                  {"peak_better", better_.second_better},
                  {"equal", better_.equal},
                  {"mean_drop", decline_.declined > 0
                                    ? json(decline_.drop / static_cast<double>(decline_.declined))
                                    : json()}}},
                {"active_by_step", active},
                {"decided_confidence", confidence_}}
        .dump();
  }

 private:
  void add(const probe_maths::decision_trace& trace) override {
    const probe_maths::share s = probe_maths::stagnation_of(trace, tau_);
    stagnant_.part += s.part;
    stagnant_.whole += s.whole;
    stagnant_of_.push_back(s);
    probe_maths::share sample;
    for (const probe_maths::share& step : probe_maths::missed_stable(trace, tau_)) {
      if (step.whole == 0) continue;
      sample.part += step.part;
      sample.whole += step.whole;
      missed_.part += step.part;
      missed_.whole += step.whole;
      step_share_.add(step.value());
      step_share_max_ = std::max(step_share_max_, step.value());
    }
    missed_of_.push_back(sample);
    if (sample.whole > 0) {
      sample_share_.add(sample.value());
      sample_share_max_ = std::max(sample_share_max_, sample.value());
    }
    const probe_maths::decline d = probe_maths::post_peak_decline(trace, margin_);
    declined_of_.push_back({d.declined, d.decided});
    compare(trace, d.other);
    decline_.decided += d.decided;
    decline_.declined += d.declined;
    decline_.other_token += d.other_token;
    decline_.drop += d.drop;
    const std::vector<std::int64_t> active = probe_maths::judged_per_step(trace);
    if (active.size() > active_.size()) active_.resize(active.size());
    for (std::size_t t = 0; t < active.size(); ++t) active_[t] += active[t];
    for (const auto& step : trace) {
      for (const probe_maths::judged& j : step) {
        if (!j.accepted) continue;
        ++confidence_[static_cast<std::size_t>(std::clamp(j.confidence * 10, 0.0F, 9.0F))];
      }
    }
  }

  // A declined position with its decided token, and with the one it had at its peak, in the answer
  // as it came out.
  void compare(const probe_maths::decision_trace& trace,
               const std::vector<probe_maths::decline_event>& changed) {
    if (!score_ || changed.empty()) return;
    const auto request = static_cast<std::size_t>(requests_ - 1);
    std::vector<std::int32_t> canvas =
        probe_maths::canvas_of(trace, prompt_length_, canvas_length_);
    const std::optional<double> decided = score_(request, canvas);
    for (const probe_maths::decline_event& e : changed) {
      const auto at = static_cast<std::size_t>(e.position - prompt_length_);
      const std::int32_t kept = canvas[at];
      canvas[at] = e.peak_token;
      better_.add(decided, score_(request, canvas));
      canvas[at] = kept;
    }
  }

  // [part, whole] of every item, so that items of several tasks can be pooled.
  static json pairs(const std::vector<probe_maths::share>& items) {
    json all = json::array();
    for (const probe_maths::share& s : items) all.push_back({s.part, s.whole});
    return all;
  }
  static json ratio(std::int64_t part, std::int64_t whole) {
    return whole > 0 ? json(static_cast<double>(part) / static_cast<double>(whole)) : json();
  }

  double tau_, margin_;
  decltype(probe_source::score) score_;
  comparison better_;  // decided token against that of the peak
  mean sample_share_;
  double sample_share_max_ = 0;
  probe_maths::share stagnant_, missed_;
  std::vector<probe_maths::share> stagnant_of_, missed_of_, declined_of_;  // by item
  mean step_share_;
  double step_share_max_ = 0;
  probe_maths::decline decline_;
  std::vector<std::int64_t> active_;
  std::vector<std::int64_t> confidence_ = std::vector<std::int64_t>(10);  // of decided tokens
};

class decoding_probe final : public decision_probe {
 public:
  void on_step(const step_view& step) override {
    decision_probe::on_step(step);
    if (step.plan.of.front().what != forward_kind::prefill) rows_ += step.entered.rows;
  }
  std::string result() const override {
    const auto per_token = [&](std::int64_t n) {
      return decided_ > 0 ? json(static_cast<double>(n) / static_cast<double>(decided_)) : json();
    };
    return json{
        {"requests", requests_},
        {"steps", steps_},
        {"decided", decided_},
        {"rows", rows_},
        {"judged", judged_},
        {"mean",
         steps_ > 0 ? json(static_cast<double>(decided_) / static_cast<double>(steps_)) : json()},
        {"deviation", deviation()},
        {"rows_per_token", per_token(rows_)},
        {"judged_per_token", per_token(judged_)},
        {"histogram", counts_}}
        .dump();
  }

 private:
  void add(const probe_maths::decision_trace& trace) override {
    const std::vector<std::int64_t> decided = probe_maths::decided_per_step(trace);
    probe_maths::add_to_histogram(decided, counts_);
    for (const std::int64_t n : decided) decided_ += n;
    for (const std::int64_t n : probe_maths::judged_per_step(trace)) judged_ += n;
  }

  // Of the tokens decided in a step, over all steps.
  json deviation() const {
    if (steps_ == 0) return {};
    double squares = 0;
    for (std::size_t n = 0; n < counts_.size(); ++n) {
      squares += static_cast<double>(counts_[n]) * static_cast<double>(n * n);
    }
    const double steps = static_cast<double>(steps_), mean = static_cast<double>(decided_) / steps;
    return std::sqrt(std::max(squares / steps - mean * mean, 0.0));
  }

  std::int64_t decided_ = 0, rows_ = 0, judged_ = 0;
  std::vector<std::int64_t> counts_;  // steps that decided 0, 1, 2, ... tokens
};

}  // namespace

std::unique_ptr<probe> confidence(const probe_settings&) {
  return std::make_unique<confidence_probe>();
}
std::unique_ptr<probe> stagnation(const probe_settings& settings, const probe_source& source) {
  return std::make_unique<stagnation_probe>(settings, source);
}
std::unique_ptr<probe> decoding(const probe_settings&) {
  return std::make_unique<decoding_probe>();
}

}  // namespace unmask::probes
