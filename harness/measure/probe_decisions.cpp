// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Writes down every candidate's arg-max, confidence and fate, step by step, and the decodes and scores
// that only this program can make: the requests against one token per forward, and with every position
// decided where it was most confident (both for Ada-DLM, which has neither number).
#include <map>
#include <optional>
#include <utility>

#include "harness/measure/probe_writer.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

// A masked position as one step saw it.
struct candidate {
  std::int32_t position = 0;
  std::int32_t token = 0;  // arg-max
  float confidence = 0;    // its probability
  bool accepted = false;   // decided by this step
};
// A decided position got another token, or -1 if it is masked again.
struct edit {
  std::int32_t position = 0, token = -1;
  float confidence = 0;
};
// One sequence: what every step that had candidates saw and changed.
struct seen_step {
  std::vector<candidate> candidates;
  std::vector<edit> edits;
};
using decision_trace = std::vector<seen_step>;
using token_list = std::vector<std::int32_t>;

// Tokens of a canvas as the trace ends; -1: never decided.
token_list canvas_of(const decision_trace& trace, std::int32_t prompt, std::int32_t length) {
  token_list canvas(static_cast<std::size_t>(length), -1);
  const auto put = [&](std::int32_t position, std::int32_t token) {
    const std::int32_t at = position - prompt;
    if (at >= 0 && at < length) canvas[static_cast<std::size_t>(at)] = token;
  };
  for (const seen_step& step : trace) {
    for (const candidate& c : step.candidates) {
      if (c.accepted) put(c.position, c.token);
    }
    for (const edit& e : step.edits) put(e.position, e.token);
  }
  return canvas;
}
token_list canvas_of(const trajectory& t, std::size_t length) {
  token_list canvas(length, -1);
  const token_list step = t.steps(), token = t.tokens();
  for (std::size_t i = 0; i < std::min(length, token.size()); ++i) {
    if (step[i] >= 0) canvas[i] = token[i];
  }
  return canvas;
}

// Each decided position at the first step, up to its decision, where it was most confident.
trajectory peaks_of(const decision_trace& trace, std::int32_t prompt, std::int32_t length) {
  std::map<std::int32_t, std::size_t> decided;
  for (std::size_t t = 0; t < trace.size(); ++t) {
    for (const candidate& c : trace[t].candidates) {
      if (c.accepted) decided[c.position] = t;
    }
  }
  std::map<std::int32_t, trajectory_event> peak;
  std::map<std::int32_t, float> best;
  for (std::size_t t = 0; t < trace.size(); ++t) {
    for (const candidate& c : trace[t].candidates) {
      const auto end = decided.find(c.position);
      const std::int32_t at = c.position - prompt;
      if (end == decided.end() || end->second < t || at < 0 || at >= length) continue;
      const auto [known, first] = best.try_emplace(c.position, c.confidence);
      if (!first && !(c.confidence > known->second)) continue;
      known->second = c.confidence;
      peak[at] = {static_cast<std::int32_t>(t), at, c.token};
    }
  }
  trajectory peaks{length, {}};
  for (const auto& [at, event] : peak) peaks.events.push_back(event);
  std::ranges::stable_sort(peaks.events, {}, &trajectory_event::step);
  return peaks;
}

json score_value(const std::optional<double>& score) {
  return score ? json(*score) : json();
}

class decision_writer final : public probe_writer {
 public:
  using probe_writer::probe_writer;

  void begin(const batch& b) override {
    now_ = {};
    now_.prompt = b.at(0).prompt_length;
    now_.canvas = b.at(0).length - now_.prompt;
    stops_ = b.model().stop_ids;
    rows_ = revised_ = 0;
  }

  void on_step(const step_view& step) override {
    if (step.plan.of.front().what != forward_kind::prefill) rows_ += step.entered.rows;
    const candidate_lists& c = step.candidates;
    if (c.count == 0) return;
    seen_step& seen = now_.trace.emplace_back();
    const std::uint8_t* state = step.state.state().row<std::uint8_t>(0);
    std::span<const decision_event> events = step.decisions;
    for (std::int32_t i = 0; i < c.count; ++i) {
      const std::int32_t position = c.position.as<std::int32_t>()[i];
      const decision_event* event = take_event(events, position);
      if (state[position] == state_masked) {
        seen.candidates.push_back({position, c.token.as<std::int32_t>()[i],
                                   c.probability.as<float>()[i], event != nullptr});
      } else if (event != nullptr) {  // it was up for another token, or for none
        seen.edits.push_back({position, event->token, event->confidence});
        ++revised_;
      }
    }
  }

  void end() override {
    json line = {{"kind", "request"}, {"prompt", now_.prompt}, {"canvas", now_.canvas},
                 {"stops", stops_},   {"rows", rows_},         {"steps", json::array()}};
    for (const seen_step& step : now_.trace) {
      json position = json::array(), token = json::array(), confidence = json::array(),
           accepted = json::array();
      for (const candidate& c : step.candidates) {
        position.push_back(c.position);
        token.push_back(c.token);
        confidence.push_back(c.confidence);
        accepted.push_back(c.accepted);
      }
      line["steps"].push_back({{"position", position},
                               {"token", token},
                               {"confidence", confidence},
                               {"accepted", accepted}});
      for (const edit& e : step.edits) {
        line["steps"].back()["edits"].push_back({e.position, e.token, e.confidence});
      }
    }
    if (revised_ > 0) line["revised"] = revised_;
    if (asked("stagnation") && source_.score) score_peaks(line);
    write(line);
    ++requests_;
    if (asked("contradiction") || asked("peak_oracle")) seen_.push_back(now_);
  }

  void finish() override {
    if (asked("contradiction") && source_.reference) {
      write_second("contradiction", source_.reference(settings_.reference_block), {});
    }
    if (asked("peak_oracle") && source_.again) {
      std::vector<trajectory> order;
      for (const request& r : seen_) order.push_back(peaks_of(r.trace, r.prompt, r.canvas));
      const probe_decode again =
          source_.again([&](std::int64_t id) { return order.at(static_cast<std::size_t>(id)); });
      write_second("peak_oracle", again, order);
    }
  }

 private:
  struct request {
    decision_trace trace;
    std::int32_t prompt = 0, canvas = 0;
    token_list tokens() const { return canvas_of(trace, prompt, canvas); }
  };

  bool asked(const char* probe) const {
    return std::ranges::find(settings_.names, probe) != settings_.names.end();
  }

  // The score of the answer, and in the order of the decisions that last the scores it has with the token
  // of an earlier peak in the place of the decided one, if these differ.
  void score_peaks(json& line) const {
    token_list canvas = now_.tokens();
    const auto index = static_cast<std::size_t>(requests_);
    line["score"] = score_value(source_.score(index, canvas));
    line["peak_scores"] = json::array();
    std::map<std::int32_t, std::int64_t> to_come;  // edits of a position in later steps
    for (const seen_step& step : now_.trace) {
      for (const edit& e : step.edits) ++to_come[e.position];
    }
    std::map<std::int32_t, candidate> peak;
    const auto meet = [&](const candidate& c) {
      const auto [best, first] = peak.try_emplace(c.position, c);
      if (c.accepted && to_come[c.position] == 0 && best->second.token != c.token) {
        std::int32_t& at = canvas[static_cast<std::size_t>(c.position - now_.prompt)];
        const std::int32_t kept = std::exchange(at, best->second.token);
        line["peak_scores"].push_back(score_value(source_.score(index, canvas)));
        at = kept;
      }
      if (!first && c.confidence > best->second.confidence) best->second = c;
    };
    for (const seen_step& step : now_.trace) {
      for (const candidate& c : step.candidates) meet(c);
      for (const edit& e : step.edits) {
        --to_come[e.position];
        if (e.token >= 0) meet({e.position, e.token, e.confidence, true});
      }
    }
  }

  // `order`: of the peak oracle, whose own tokens are scored too.
  void write_second(const char* of, const probe_decode& other,
                    const std::vector<trajectory>& order) {
    json line = {{"kind", "again"},           {"of", of},
                 {"problem", other.problem},  {"steps", other.steps},
                 {"canvases", json::array()}, {"scores", json::array()}};
    for (std::size_t i = 0; other.of.size() == seen_.size() && i < seen_.size(); ++i) {
      const auto length = static_cast<std::size_t>(seen_[i].canvas);
      const token_list canvas = canvas_of(other.of[i], length);
      line["canvases"].push_back(canvas);
      if (!source_.score) continue;
      json scores = {score_value(source_.score(i, seen_[i].tokens())),
                     score_value(source_.score(i, canvas))};
      if (!order.empty()) {
        scores.push_back(score_value(source_.score(i, canvas_of(order[i], length))));
      }
      line["scores"].push_back(scores);
    }
    write(line);
  }

  request now_;
  std::vector<request> seen_;  // of probes that decode once more
  std::int64_t rows_ = 0, requests_ = 0;
  std::int64_t revised_ = 0;  // tokens of this request that were replaced or reopened
  std::vector<std::int32_t> stops_;
};

}  // namespace

std::unique_ptr<probe_writer> write_decisions(const probe_settings& settings,
                                              const probe_source& source, std::ostream& out) {
  return std::make_unique<decision_writer>(settings, source, out);
}

}  // namespace unmask::probes
