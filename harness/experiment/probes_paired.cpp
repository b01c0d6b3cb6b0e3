// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes that decode their requests once more and compare: against one token per forward, and with
// every position decided where it was most confident (both for Ada-DLM, which has neither number).
#include <array>

#include <nlohmann/json.hpp>

#include "harness/experiment/probes.h"

namespace unmask::probes {
namespace {

using nlohmann::json;
// The share of nothing is NaN, which JSON writes as null.
json share_of(const share& s) {
  return {{"compared", s.whole}, {"differ", s.part}, {"share", rounded(s.value())}};
}

// Tokens as a canvas of this length; -1 where nothing was decided.
std::vector<std::int32_t> canvas_of(const trajectory& t, std::size_t length) {
  std::vector<std::int32_t> canvas(length, -1);
  for (std::size_t i = 0; i < std::min(length, t.token.size()); ++i) {
    if (t.step[i] >= 0) canvas[i] = t.token[i];
  }
  return canvas;
}

// A probe that keeps the traces of all requests and compares them with a second decode of these.
class second_decode_probe : public decision_probe {
 public:
  using decision_probe::decision_probe;
  void finish() override {
    const probe_decode other = second_decode();
    problem_ = other.problem;
    done_ = problem_.empty() && !other.of.empty() &&
            other.of.size() == static_cast<std::size_t>(requests_);
    if (!done_) return;
    second_steps_ = other.steps;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      compare(i, canvas_of(other.of[i], static_cast<std::size_t>(seen_[i].canvas)));
    }
  }

 protected:
  struct request {
    decision_trace trace;
    std::int32_t prompt = 0, canvas = 0;
    std::vector<std::int32_t> tokens() const {
      return probe_maths::canvas_of(trace, prompt, canvas);
    }
  };
  virtual probe_decode second_decode() = 0;  // no requests in it: none was offered
  virtual void compare(std::size_t i, const std::vector<std::int32_t>& theirs) = 0;
  virtual void report_comparison(json& out) const = 0;
  void report(json& out) const override {
    out["steps"] = steps_;
    if (done_) {
      report_comparison(out);
    } else {
      out["not_run"] = problem_.empty() ? "no second decode was offered" : problem_;
    }
  }

  std::vector<request> seen_;
  std::int64_t second_steps_ = 0;

 private:
  void add(const decision_trace& trace) override {
    seen_.push_back({trace, prompt_length_, canvas_length_});
  }
  std::string problem_;
  bool done_ = false;
};

class contradiction_probe final : public second_decode_probe {
 public:
  using second_decode_probe::second_decode_probe;

 private:
  probe_decode second_decode() override {
    return source_.reference ? source_.reference(settings_.reference_block) : probe_decode{};
  }

  void compare(std::size_t i, const std::vector<std::int32_t>& theirs) override {
    const request& mine = seen_[i];
    const probe_maths::contradiction c =
        probe_maths::contradictions(mine.trace, mine.prompt, theirs, stop_ids_);
    canvas_ += c.canvas;
    answer_ += c.answer;
    requests_that_differ_ += c.answer.part > 0;
    for (std::size_t bin = 0; bin < by_confidence_.size(); ++bin) {
      by_confidence_[bin] += c.by_confidence[bin];
    }
    if (source_.score) better_.add(source_.score(i, mine.tokens()), source_.score(i, theirs));
  }

  void report(json& out) const override {
    out["reference_block"] = settings_.reference_block;
    second_decode_probe::report(out);
  }
  void report_comparison(json& out) const override {
    json compared = json::array(), differ = json::array();
    for (const share& bin : by_confidence_) {
      compared.push_back(bin.whole);
      differ.push_back(bin.part);
    }
    out["reference_steps"] = second_steps_;
    out["canvas"] = share_of(canvas_);
    out["answer"] = share_of(answer_);
    out["requests_that_differ"] = requests_that_differ_;
    out["by_confidence"] = {{"compared", compared}, {"differ", differ}};
    out["score"] = {{"scored", better_.scored()},
                    {"better", better_.first_better},
                    {"reference_better", better_.second_better},
                    {"equal", better_.equal}};
  }

  std::int64_t requests_that_differ_ = 0;
  share canvas_, answer_;
  std::array<share, 10> by_confidence_;
  comparison better_;  // this method against the reference
};

class peak_oracle_probe final : public second_decode_probe {
 public:
  using second_decode_probe::second_decode_probe;

 private:
  probe_decode second_decode() override {
    if (!source_.again) return {};
    for (const request& r : seen_) order_.push_back(peaks(r));
    return source_.again(
        [this](std::int64_t id) { return order_.at(static_cast<std::size_t>(id)); });
  }

  void compare(std::size_t i, const std::vector<std::int32_t>& again) override {
    const std::vector<std::int32_t> mine = seen_[i].tokens();
    for (std::size_t p = 0; p < mine.size(); ++p) {
      if (mine[p] < 0 || again[p] < 0) continue;
      changed_.count(mine[p] != again[p]);
      earlier_ += order_[i].step[p] < step_of(seen_[i], p);
    }
    if (!source_.score) return;
    const std::optional<double> of_mine = source_.score(i, mine);
    if (!of_mine) return;
    score_.add(*of_mine);
    score_again_.add(source_.score(i, again).value_or(0));
    score_at_peak_.add(source_.score(i, canvas_of(order_[i], mine.size())).value_or(0));
  }

  void report_comparison(json& out) const override {
    const share steps{steps_, second_steps_};
    out["decided"] = changed_.whole;
    out["peaked_before"] = earlier_;
    out["oracle_steps"] = second_steps_;
    out["steps_ratio"] = rounded(steps.value());
    out["tokens"] = share_of(changed_);
    out["score"] = {{"scored", score_.n},
                    {"method", rounded(score_.value())},
                    {"oracle", rounded(score_again_.value())},
                    {"peak_tokens", rounded(score_at_peak_.value())}};
  }

  static trajectory peaks(const request& r) {
    trajectory t;
    t.step.assign(static_cast<std::size_t>(r.canvas), -1);
    t.token.assign(static_cast<std::size_t>(r.canvas), 0);
    for (const probe_maths::confidence_peak& peak : probe_maths::peaks_of(r.trace)) {
      const std::int32_t at = peak.position - r.prompt;
      if (at < 0 || at >= r.canvas) continue;
      t.step[static_cast<std::size_t>(at)] = peak.step;
      t.token[static_cast<std::size_t>(at)] = peak.token;
    }
    return t;
  }

  // The step of the trace that decided generated position p.
  static std::int32_t step_of(const request& r, std::size_t p) {
    std::int32_t step = -1;
    for (std::size_t t = 0; t < r.trace.size(); ++t) {
      for (const probe_maths::judged& j : r.trace[t]) {
        const bool here = j.position == r.prompt + static_cast<std::int32_t>(p);
        if (here && j.accepted) step = static_cast<std::int32_t>(t);
      }
    }
    return step;
  }

  std::vector<trajectory> order_;  // each position at the step where it was most confident
  std::int64_t earlier_ = 0;
  share changed_;
  mean score_, score_again_, score_at_peak_;
};

}  // namespace

maker_list of_second_decodes() {
  return {{"contradiction", make<contradiction_probe>}, {"peak_oracle", make<peak_oracle_probe>}};
}

}  // namespace unmask::probes
