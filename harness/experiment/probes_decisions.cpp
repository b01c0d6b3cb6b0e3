// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes that need decisions only: every candidate's arg-max, confidence and fate, step by step.
#include <array>

#include <nlohmann/json.hpp>

#include "harness/experiment/probes.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

json ratio(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? json(static_cast<double>(part) / static_cast<double>(whole)) : json();
}

// Counts by request, and what they come to: NaN is null in JSON.
class counts_by_item {
 public:
  void add(const share& item) { items_.push_back(item); }
  share all() const { return probe_maths::sum_of(items_); }
  // "share", its interval, and [part, whole] of every item, so that items of several tasks can be
  // pooled.
  void report(json& out) const {
    out["share"] = all().value();
    out["share_ci95"] = probe_maths::interval_of(items_, &share::value);
    out["share_items"] = json::array();
    for (const share& s : items_) out["share_items"].push_back({s.part, s.whole});
  }

 private:
  std::vector<share> items_;
};

class confidence_probe final : public decision_probe {
 public:
  using decision_probe::decision_probe;

 private:
  void add(const decision_trace& trace) override {
    const probe_maths::confidence_pairs more = probe_maths::pairs_of(trace);
    pairs_.before.insert(pairs_.before.end(), more.before.begin(), more.before.end());
    pairs_.now.insert(pairs_.now.end(), more.now.begin(), more.now.end());
    ends_.push_back(pairs_.now.size());
    for (std::size_t i = 0; i < tops.size(); ++i) {
      recall_[i].push_back(probe_maths::recall_of_top(trace, tops[i]));
    }
  }

  void report(json& out) const override {
    json recall = json::array(), ranges = json::array(), points = json::array();
    for (const std::vector<share>& r : recall_) {
      recall.push_back(rounded(probe_maths::sum_of(r).value()));
      ranges.push_back(probe_maths::interval_of(r, &share::value));
    }
    const std::size_t n = pairs_.now.size(), stride = std::max<std::size_t>(1, n / shown);
    for (std::size_t i = 0; i < n; i += stride) {
      points.push_back({rounded(pairs_.before[i]), rounded(pairs_.now[i])});
    }
    out["steps"] = steps_;
    out["pairs"] = n;
    out["correlation"] = rounded(probe_maths::correlation(pairs_.before, pairs_.now));
    out["correlation_ci95"] = correlation_interval();
    out["recall"] = {{"k", tops},
                     {"value", recall},
                     {"value_ci95", ranges},
                     {"tokens", probe_maths::sum_of(recall_.front()).whole}};
    out["points"] = points;
  }

  // Over items, every pair of an item drawn with it.
  std::vector<double> correlation_interval() const {
    return probe_maths::interval_over_items(
        ends_.size(),
        [&](std::span<const std::size_t> drawn) {
          probe_maths::confidence_pairs some;
          for (const std::size_t item : drawn) {
            const auto first = static_cast<std::ptrdiff_t>(item > 0 ? ends_[item - 1] : 0);
            const auto last = static_cast<std::ptrdiff_t>(ends_[item]);
            some.before.insert(some.before.end(), pairs_.before.begin() + first,
                               pairs_.before.begin() + last);
            some.now.insert(some.now.end(), pairs_.now.begin() + first, pairs_.now.begin() + last);
          }
          return probe_maths::correlation(some.before, some.now);
        },
        200);
  }

  static constexpr std::size_t shown = 400;  // points of the scatter plot
  static constexpr std::array<std::int32_t, 5> tops = {1, 2, 4, 8, 16};
  std::array<std::vector<share>, 5> recall_;  // by item
  probe_maths::confidence_pairs pairs_;
  std::vector<std::size_t> ends_;  // of the pairs of each item
};

class stagnation_probe final : public decision_probe {
 public:
  using decision_probe::decision_probe;

 private:
  void add(const decision_trace& trace) override {
    stagnant_.add(probe_maths::stagnation_of(trace, settings_.tau));
    share sample;
    for (const share& step : probe_maths::missed_stable(trace, settings_.tau)) {
      if (step.whole == 0) continue;
      sample += step;
      by_step_.add(step.value());
    }
    missed_.add(sample);
    if (sample.whole > 0) by_sample_.add(sample.value());
    const probe_maths::decline d = probe_maths::post_peak_decline(trace, settings_.margin);
    declined_.add({d.declined, d.decided});
    other_token_ += static_cast<std::int64_t>(d.other.size());
    drop_ += d.drop;
    compare(trace, d.other);
    const std::vector<std::int64_t> active = probe_maths::judged_per_step(trace);
    active_.resize(std::max(active_.size(), active.size()));
    for (std::size_t t = 0; t < active.size(); ++t) active_[t] += active[t];
    for (const auto& step : trace) {
      for (const probe_maths::judged& j : step) {
        if (j.accepted) ++confidence_[probe_maths::tenth_of(j.confidence)];
      }
    }
  }

  void report(json& out) const override {
    const share stagnant = stagnant_.all(), missed = missed_.all(), declined = declined_.all();
    std::vector<double> active;
    for (const std::int64_t n : active_) {
      active.push_back(rounded(static_cast<double>(n) / static_cast<double>(requests_)));
    }
    out["steps"] = steps_;
    out["tau"] = settings_.tau;
    out["stagnant"] = stagnant.part;
    out["active"] = stagnant.whole;
    stagnant_.report(out);
    out["missed_stable"] = {{"stable", missed.whole},
                            {"missed", missed.part},
                            {"step_mean", by_step_.value()},
                            {"step_max", by_step_.most},
                            {"sample_mean", by_sample_.value()},
                            {"sample_max", by_sample_.most}};
    missed_.report(out["missed_stable"]);
    out["decline"] = {
        {"margin", settings_.margin},
        {"decided", declined.whole},
        {"declined", declined.part},
        {"other_token", other_token_},
        {"other_token_share", ratio(other_token_, declined.part)},
        {"scored", better_.scored()},
        {"committed_better", better_.first_better},
        {"peak_better", better_.second_better},
        {"equal", better_.equal},
        {"mean_drop",
         declined.part > 0 ? json(drop_ / static_cast<double>(declined.part)) : json()}};
    declined_.report(out["decline"]);
    out["active_by_step"] = active;
    out["decided_confidence"] = confidence_;
  }

  // A declined position with its decided token, and with the one it had at its peak, in the answer
  // as it came out.
  void compare(const decision_trace& trace,
               const std::vector<probe_maths::decline_event>& changed) {
    if (!source_.score || changed.empty()) return;
    const auto request = static_cast<std::size_t>(requests_ - 1);
    std::vector<std::int32_t> canvas =
        probe_maths::canvas_of(trace, prompt_length_, canvas_length_);
    const std::optional<double> decided = source_.score(request, canvas);
    for (const probe_maths::decline_event& e : changed) {
      const auto at = static_cast<std::size_t>(e.position - prompt_length_);
      const std::int32_t kept = canvas[at];
      canvas[at] = e.peak_token;
      better_.add(decided, source_.score(request, canvas));
      canvas[at] = kept;
    }
  }

  counts_by_item stagnant_, missed_, declined_;
  mean by_step_, by_sample_;  // shares of missed stable tokens
  std::int64_t other_token_ = 0;
  double drop_ = 0;
  comparison better_;  // decided token against that of the peak
  std::vector<std::int64_t> active_;
  std::array<std::int64_t, 10> confidence_{};  // of decided tokens, by tenth
};

class decoding_probe final : public decision_probe {
 public:
  using decision_probe::decision_probe;
  void on_step(const step_view& step) override {
    decision_probe::on_step(step);
    if (step.plan.of.front().what != forward_kind::prefill) rows_ += step.entered.rows;
  }

 private:
  void add(const decision_trace& trace) override {
    const std::vector<std::int64_t> decided = probe_maths::decided_per_step(trace);
    probe_maths::add_to_histogram(decided, counts_);
    by_item_.push_back({0, static_cast<std::int64_t>(decided.size())});
    for (const std::int64_t n : decided) by_item_.back().part += n;
    decided_ += by_item_.back().part;
    for (const std::int64_t n : probe_maths::judged_per_step(trace)) judged_ += n;
  }

  void report(json& out) const override {
    out["steps"] = steps_;
    out["decided"] = decided_;
    out["rows"] = rows_;
    out["judged"] = judged_;
    out["mean"] = ratio(decided_, steps_);
    out["mean_ci95"] = probe_maths::interval_of(by_item_, &share::value);
    out["deviation"] = deviation();
    out["rows_per_token"] = ratio(rows_, decided_);
    out["judged_per_token"] = ratio(judged_, decided_);
    out["histogram"] = counts_;
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
  std::vector<share> by_item_;        // decided, of steps
  std::vector<std::int64_t> counts_;  // steps that decided 0, 1, 2, ... tokens
};

}  // namespace

maker_list of_decisions() {
  return {{"confidence", make<confidence_probe>},
          {"stagnation", make<stagnation_probe>},
          {"decoding", make<decoding_probe>}};
}

}  // namespace unmask::probes
