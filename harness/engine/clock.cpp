// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/clock.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <thread>

#include "harness/base/error.h"
#include "harness/base/ranks/group.h"

namespace unmask {

table_cost::table_cost(std::vector<sample> samples, double per_request, double per_key)
    : per_request_(per_request), per_key_(per_key) {
  std::ranges::stable_sort(samples, {}, &sample::rows);
  for (std::size_t i = 0; i < samples.size();) {
    double sum = 0;
    std::size_t n = 0;
    const double rows = samples[i].rows;
    for (; i < samples.size() && samples[i].rows == rows; ++i, ++n) sum += samples[i].seconds;
    const double mean = sum / static_cast<double>(n);
    if (!(rows > 0) || !std::isfinite(rows) || !(mean > 0) || !std::isfinite(mean)) {
      throw usage_error("cost: rows and times of a forward must be positive numbers");
    }
    samples_.push_back({rows, mean});
  }
  if (samples_.empty()) throw usage_error("cost: there is no sample of a forward's duration");
}

double table_cost::seconds(const forward_shape& forward) const {
  const auto x = static_cast<double>(forward.rows);
  const double rest =
      per_request_ * forward.requests + per_key_ * static_cast<double>(forward.context);
  if (x <= samples_.front().rows || samples_.size() == 1) return samples_.front().seconds + rest;
  auto right = std::ranges::lower_bound(samples_, x, {}, &sample::rows);
  if (right == samples_.end()) --right;
  const auto left = right - 1;
  const double slope = (right->seconds - left->seconds) / (right->rows - left->rows);
  // A falling last piece would reach negative times.
  if (x > right->rows) return right->seconds + std::max(slope, 0.0) * (x - right->rows) + rest;
  return left->seconds + slope * (x - left->rows) + rest;
}

std::string table_cost::text() const {
  std::string all;
  for (const sample& s : samples_) {
    char one[64];
    std::snprintf(one, sizeof one, "%.9g:%.9g", s.rows, s.seconds * 1e3);
    all += (all.empty() ? "" : " ") + std::string(one);
  }
  return all;
}

table_cost parse_cost(const std::string& text, double per_request, double per_key) {
  std::vector<table_cost::sample> samples;
  std::istringstream in(text);
  for (std::string part; in >> part;) {
    table_cost::sample s;
    char colon = 0, extra = 0;
    std::istringstream one(part);
    if (!(one >> s.rows >> colon >> s.seconds) || colon != ':' || one >> extra) {
      throw usage_error("cost: '" + part + "' is not ROWS:MILLISECONDS");
    }
    s.seconds /= 1e3;
    samples.push_back(s);
  }
  return table_cost(std::move(samples), per_request, per_key);
}

engine_clock::engine_clock(double overhead, std::function<double()> aside)
    : overhead_(overhead), aside_(std::move(aside)), start_(wall_clock::now()) {}

engine_clock::engine_clock(std::shared_ptr<const cost_model> cost, double overhead)
    : cost_(std::move(cost)), overhead_(overhead) {}

double engine_clock::now() const {
  if (cost_) return virtual_now_;
  const double since = std::chrono::duration<double>(wall_clock::now() - start_).count();
  const double elapsed = aside_ ? since - aside_() : since;
  rank_group* ranks = current_ranks();
  return ranks != nullptr ? ranks->from_first(elapsed) : elapsed;
}

void engine_clock::wait_until(double time) {
  if (cost_) {
    virtual_now_ = std::max(virtual_now_, time);
    return;
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(std::max(time - now(), 0.0)));
}

void engine_clock::begin_forward() {
  if (!cost_) forward_start_ = now();
}

double engine_clock::end_forward(const forward_shape& forward) {
  if (cost_) {
    const double seconds = cost_->seconds(forward) + overhead_;
    virtual_now_ += seconds;
    return seconds;
  }
  const auto since = [&] { return now() - forward_start_; };
  // Spinning, because sleeping is too coarse for milliseconds.
  if (const double until = overhead_ > 0 ? since() + overhead_ : 0; until > 0) {
    while (since() < until) {
    }
  }
  return since();
}

}  // namespace unmask
