// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Time for the engine: the machine's own clock, or a virtual one that a cost model moves. Under the
// virtual clock an hour of arrivals takes as long as its decisions do, and the same seed gives the
// same times on every machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace unmask {

// The work of one forward, as far as its duration is modelled.
struct forward_shape {
  std::int64_t rows = 0;      // entering layer 0, over all requests
  std::int32_t requests = 0;  // taking part
  std::int64_t context = 0;   // keys visible, summed over requests
};

class cost_model {
 public:
  virtual ~cost_model() = default;
  virtual double seconds(const forward_shape& forward) const = 0;
};

// Times of forwards that were measured (latency.h) or that an experiment states; nothing here predicts
// them. Predictions for a GPU that is not here are plan/expected_time.h, for the hours of a plan, and
// tests/cost_model, for kernels.
// Piecewise affine in rows through these samples, flat below the first and with the last slope
// beyond the last; plus a share per request and per visible key.
class table_cost final : public cost_model {
 public:
  struct sample {
    double rows = 0, seconds = 0;
  };
  // Sorted by rows here; equal rows are averaged. Usage error without samples or when one is not
  // positive and finite.
  explicit table_cost(std::vector<sample> samples, double per_request = 0, double per_key = 0);
  double seconds(const forward_shape& forward) const override;
  const std::vector<sample>& samples() const { return samples_; }
  // "ROWS:MILLISECONDS ROWS:MILLISECONDS ...", as the `cost` of an experiment states it.
  std::string text() const;

 private:
  std::vector<sample> samples_;
  double per_request_, per_key_;
};

// Reads table_cost::text(). Usage error that names the faulty part.
table_cost parse_cost(const std::string& text, double per_request = 0, double per_key = 0);

class engine_clock {
 public:
  // Real time from now on. `overhead` seconds are spent waiting after every forward: the fixed cost
  // of a slower host, to reproduce its regime on purpose.
  // `aside`: seconds since the clock was made that it stood still.
  explicit engine_clock(double overhead = 0, std::function<double()> aside = {});
  // Virtual time from 0.
  explicit engine_clock(std::shared_ptr<const cost_model> cost, double overhead = 0);

  bool is_virtual() const { return cost_ != nullptr; }
  // Seconds. Ranks that run a model together read the real clock of rank 0, all at the same places:
  // what they decide by it is the same.
  double now() const;
  void wait_until(double time);
  // Around one forward; end returns its duration including the overhead.
  void begin_forward();
  double end_forward(const forward_shape& forward);

 private:
  using wall_clock = std::chrono::steady_clock;
  std::shared_ptr<const cost_model> cost_;
  double overhead_;
  double virtual_now_ = 0;
  std::function<double()> aside_;
  wall_clock::time_point start_;
  double forward_start_ = 0;
};

}  // namespace unmask
