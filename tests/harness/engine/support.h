// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "harness/engine/engine.h"
#include "tests/harness/engine/scripted_runner.h"

namespace unmask::testing_engine {

// Keeps everything, and writes forwards as "time P|D rows" for comparison by eye.
class collector final : public engine_sink {
 public:
  void on_request(request_record&& record) override { requests.push_back(std::move(record)); }
  void on_iteration(const iteration_record& it) override { iterations.push_back(it); }
  std::vector<request_record> requests;
  std::vector<iteration_record> iterations;

  const request_record& of(std::size_t request) const {
    for (const request_record& r : requests) {
      if (r.request == request) return r;
    }
    throw std::logic_error("no such request");
  }
  // One word per forward: P or D, requests, and after "-" how many of them were recomputed.
  std::string trace() const {
    std::string text;
    for (const iteration_record& it : iterations) {
      text += (text.empty() ? "" : " ") + std::string(it.prefill ? "P" : "D") +
              std::to_string(it.requests);
      if (it.recomputed > 0) text += "-" + std::to_string(it.recomputed);
    }
    return text;
  }
};

// One second per started `capacity` rows, at least one second.
class stairs final : public cost_model {
 public:
  explicit stairs(double capacity) : capacity_(capacity) {}
  double seconds(const forward_shape& f) const override {
    return std::max(1.0, std::ceil(static_cast<double>(f.rows) / capacity_));
  }

 private:
  double capacity_;
};

class constant final : public cost_model {
 public:
  explicit constant(double seconds) : seconds_(seconds) {}
  double seconds(const forward_shape&) const override { return seconds_; }

 private:
  double seconds_;
};

inline std::vector<request_order> at_times(const std::vector<double>& times) {
  std::vector<request_order> orders;
  for (const double t : times) orders.push_back({t});
  return orders;
}

struct scripted_case {
  std::int32_t places = 8;
  pace_shape shape{32, 32, true};
  std::vector<request_script> scripts;
  std::vector<double> arrivals;
  engine_settings settings;
  std::int32_t pages = 1000;
};

inline collector run(const scripted_case& c, std::shared_ptr<const cost_model> cost) {
  scripted_runner runner(
      c.places, c.shape, [&](std::size_t i) { return c.scripts.at(i); }, c.pages);
  engine_clock clock(std::move(cost));
  collector seen;
  run_engine(runner, at_times(c.arrivals), c.settings, clock, seen);
  return seen;
}

}  // namespace unmask::testing_engine
