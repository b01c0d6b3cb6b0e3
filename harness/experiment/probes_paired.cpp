// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes that decode their requests once more and compare: against one token per forward, and with
// every position decided where it was most confident (both for Ada-DLM, which has neither number).
#include <nlohmann/json.hpp>

#include "harness/experiment/probes.h"

namespace unmask::probes {
namespace {

using nlohmann::json;
using probe_maths::decision_trace;

// Sum and count in JSON as a mean; null of nothing.
json mean_of(const mean& m) {
  return m.n > 0 ? json(rounded(m.value())) : json();
}

json share_of(const probe_maths::share& s) {
  return {{"compared", s.whole},
          {"differ", s.part},
          {"share", s.whole > 0 ? json(rounded(s.value())) : json()}};
}

// A decode that was made for requests [0, n) and never failed.
bool usable(const probe_decode& d, std::int64_t requests) {
  return d.problem.empty() && static_cast<std::int64_t>(d.of.size()) == requests;
}

// Tokens as a canvas of this length; -1 where nothing was decided.
std::vector<std::int32_t> canvas_of(const trajectory& t, std::size_t length) {
  std::vector<std::int32_t> canvas(length, -1);
  for (std::size_t i = 0; i < std::min(length, t.token.size()); ++i) {
    if (t.step[i] >= 0) canvas[i] = t.token[i];
  }
  return canvas;
}

// The traces of all requests, kept until the second decode is there.
class kept_traces : public decision_probe {
 protected:
  struct request {
    decision_trace trace;
    std::int32_t prompt = 0, canvas = 0;
    std::vector<std::int32_t> tokens() const {
      return probe_maths::canvas_of(trace, prompt, canvas);
    }
  };
  void add(const decision_trace& trace) override {
    seen_.push_back({trace, prompt_length_, canvas_length_});
  }
  std::vector<request> seen_;
};

class contradiction_probe final : public kept_traces {
 public:
  contradiction_probe(const probe_settings& s, const probe_source& source)
      : block_(s.reference_block), source_(source) {}

  void finish() override {
    if (!source_.reference) return;
    const probe_decode other = source_.reference(block_);
    problem_ = other.problem;
    if (!usable(other, requests_)) return;
    done_ = true;
    steps_of_reference_ = other.steps;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const request& mine = seen_[i];
      const std::vector<std::int32_t> theirs =
          canvas_of(other.of[i], static_cast<std::size_t>(mine.canvas));
      const probe_maths::contradiction c =
          probe_maths::contradictions(mine.trace, mine.prompt, theirs, stop_ids_);
      canvas_.part += c.canvas.part;
      canvas_.whole += c.canvas.whole;
      answer_.part += c.answer.part;
      answer_.whole += c.answer.whole;
      requests_that_differ_ += c.answer.part > 0;
      for (std::size_t bin = 0; bin < compared_.size(); ++bin) {
        compared_[bin] += c.compared_by_confidence[bin];
        differ_[bin] += c.by_confidence[bin];
      }
      if (source_.score) better_.add(source_.score(i, mine.tokens()), source_.score(i, theirs));
    }
  }

  std::string result() const override {
    json out = {{"requests", requests_}, {"steps", steps_}, {"reference_block", block_}};
    if (!done_) {
      out["not_run"] = problem_.empty() ? "no second decode was offered" : problem_;
      return out.dump();
    }
    out["reference_steps"] = steps_of_reference_;
    out["canvas"] = share_of(canvas_);
    out["answer"] = share_of(answer_);
    out["requests_that_differ"] = requests_that_differ_;
    out["by_confidence"] = {{"compared", compared_}, {"differ", differ_}};
    out["score"] = {{"scored", better_.scored()},
                    {"better", better_.first_better},
                    {"reference_better", better_.second_better},
                    {"equal", better_.equal}};
    return out.dump();
  }

 private:
  std::int64_t block_;
  probe_source source_;
  std::string problem_;
  bool done_ = false;
  std::int64_t steps_of_reference_ = 0, requests_that_differ_ = 0;
  probe_maths::share canvas_, answer_;
  std::vector<std::int64_t> compared_ = std::vector<std::int64_t>(10);  // by confidence in tenths
  std::vector<std::int64_t> differ_ = std::vector<std::int64_t>(10);
  comparison better_;  // this method against the reference
};

class peak_oracle_probe final : public kept_traces {
 public:
  explicit peak_oracle_probe(const probe_source& source) : source_(source) {}

  void finish() override {
    if (!source_.again) return;
    std::vector<trajectory> order;
    for (const request& r : seen_) order.push_back(peaks(r));
    const probe_decode other =
        source_.again([&order](std::int64_t id) { return order.at(static_cast<std::size_t>(id)); });
    problem_ = other.problem;
    if (!usable(other, requests_)) return;
    done_ = true;
    steps_of_oracle_ = other.steps;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const auto length = static_cast<std::size_t>(seen_[i].canvas);
      const std::vector<std::int32_t> mine = seen_[i].tokens();
      const std::vector<std::int32_t> again = canvas_of(other.of[i], length);
      const std::vector<std::int32_t> at_peak = canvas_of(order[i], length);
      for (std::size_t p = 0; p < length; ++p) {
        if (mine[p] < 0 || again[p] < 0) continue;
        ++decided_;
        ++changed_.whole;
        changed_.part += mine[p] != again[p];
        earlier_ += order[i].step[p] < step_of(seen_[i], p);
      }
      if (!source_.score) continue;
      const std::optional<double> of_mine = source_.score(i, mine);
      if (!of_mine) continue;
      score_.add(*of_mine);
      score_again_.add(source_.score(i, again).value_or(0));
      score_at_peak_.add(source_.score(i, at_peak).value_or(0));
    }
  }

  std::string result() const override {
    json out = {{"requests", requests_}, {"steps", steps_}};
    if (!done_) {
      out["not_run"] = problem_.empty() ? "no second decode was offered" : problem_;
      return out.dump();
    }
    out["decided"] = decided_;
    out["peaked_before"] = earlier_;
    out["oracle_steps"] = steps_of_oracle_;
    out["steps_ratio"] =
        steps_of_oracle_ > 0
            ? json(rounded(static_cast<double>(steps_) / static_cast<double>(steps_of_oracle_)))
            : json();
    out["tokens"] = share_of(changed_);
    out["score"] = {{"scored", score_.n},
                    {"method", mean_of(score_)},
                    {"oracle", mean_of(score_again_)},
                    {"peak_tokens", mean_of(score_at_peak_)}};
    return out.dump();
  }

 private:
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

  probe_source source_;
  std::string problem_;
  bool done_ = false;
  std::int64_t steps_of_oracle_ = 0, decided_ = 0, earlier_ = 0;
  probe_maths::share changed_;
  mean score_, score_again_, score_at_peak_;
};

}  // namespace

std::unique_ptr<probe> contradiction(const probe_settings& settings, const probe_source& source) {
  return std::make_unique<contradiction_probe>(settings, source);
}
std::unique_ptr<probe> peak_oracle(const probe_settings&, const probe_source& source) {
  return std::make_unique<peak_oracle_probe>(source);
}

}  // namespace unmask::probes
