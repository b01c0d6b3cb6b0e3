// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/optimus/elastic_scheduler.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

namespace unmask {
namespace {

// Pseudo-steps that pull a single request's estimate towards the pooled one.
constexpr double shrinkage = 16;
// Gain of out-block streaming at full size before it was tried, from simulation: 1.5 to 1.77.
constexpr double out_block_prior = 1.6;

}  // namespace

elastic_scheduler::elastic_scheduler(elastic_settings settings, latency_model latency)
    : settings_(std::move(settings)),
      latency_(std::move(latency)),
      pooled_(settings_.block, settings_.prior),
      out_block_commits_(settings_.prior * out_block_prior),
      current_{settings_.block, false} {}

bool elastic_scheduler::warm() const {
  return cold_.seen >= settings_.cold_steps;
}

void elastic_scheduler::count_cold(cold_count& of) const {
  if (settings_.cold_by_step && of.last_step == steps_) return;
  of.last_step = steps_;
  ++of.seen;
}

double elastic_scheduler::expected(const chunk_choice& choice,
                                   const std::vector<std::int32_t>& running) const {
  const auto b = static_cast<double>(running.size());
  if (choice.out_block) return b * out_block_commits_;
  const double pooled = pooled_.expected(choice.size, settings_.estimator);
  if (!settings_.per_request) return b * pooled;
  double sum = 0;
  for (const std::int32_t s : running) {
    const auto i = static_cast<std::size_t>(s);
    const bool known = i < own_.size() && own_[i].has_value();
    const double n = known ? static_cast<double>(own_[i]->steps()) : 0.0;
    const double own = known ? own_[i]->expected(choice.size, settings_.estimator) : 0.0;
    sum += (shrinkage * pooled + n * own) / (shrinkage + n);
  }
  return sum;
}

double elastic_scheduler::rate(const chunk_choice& choice,
                               const std::vector<std::int32_t>& running) const {
  const auto b = static_cast<double>(running.size());
  // Out-block streaming fills its chunks from the next block.
  const double rows = settings_.expected_rows && !choice.out_block
                          ? pooled_.expected_rows(choice.size)
                          : choice.size;
  return expected(choice, running) / (latency_.seconds(b * rows, b) + settings_.overhead_seconds);
}

chunk_choice elastic_scheduler::choose(const std::vector<std::int32_t>& running) {
  most_running_ = std::max(most_running_, running.size());
  const chunk_choice made = decide(running);
  foretold_ = !warm() || running.empty()
                  ? 0
                  : expected(made, running) / static_cast<double>(running.size());
  return made;
}

chunk_choice elastic_scheduler::decide(const std::vector<std::int32_t>& running) {
  const chunk_choice full{settings_.block, false}, beyond{settings_.block, true};
  ++steps_;
  if (!warm() || running.empty()) return current_ = full;
  if (settings_.out_block && cold_beyond_.seen < settings_.cold_steps) return current_ = beyond;
  if (settings_.full_every > 0 && steps_ % settings_.full_every == 0) return full;
  chunk_choice best = current_;
  double most = rate(current_, running) * (1 + settings_.hysteresis);
  const auto consider = [&](const chunk_choice& c) {
    const double r = rate(c, running);
    // Equal rates, to the rounding of a bisection: the larger chunk, which shows more.
    const bool equal = std::abs(r - most) <= 1e-9 * most;
    if (equal ? c.size > best.size : r > most) {
      best = c;
      most = std::max(most, r);
    }
  };
  for (const std::int32_t c : settings_.candidates) consider({c, false});
  if (settings_.out_block) consider(beyond);
  return current_ = best;
}

void elastic_scheduler::observe(std::int32_t s, const chunk_choice& made_with,
                                const step_observation& step, std::int32_t committed) {
  // Masks of the next block know less of what stands before them: such steps say nothing about
  // chunks inside a block.
  if (made_with.out_block) {
    ++out_block_seen_;
    count_cold(cold_beyond_);
    const double w = std::max(1.0 / 64, 1.0 / static_cast<double>(out_block_seen_));
    out_block_commits_ += w * (committed - out_block_commits_);
    return;
  }
  if (static_cast<std::int32_t>(step.passed.size()) >= settings_.cold_masks) count_cold(cold_);
  pooled_.observe(step);
  if (!settings_.per_request) return;
  const auto i = static_cast<std::size_t>(s);
  if (i >= own_.size()) own_.resize(i + 1);
  if (!own_[i]) own_[i].emplace(settings_.block, settings_.prior);
  own_[i]->observe(step);
}

void elastic_scheduler::record(const chunk_choice& made_with, std::int32_t committed) {
  made_.resize(static_cast<std::size_t>(settings_.block) + 1);
  tally& t = made_[static_cast<std::size_t>(made_with.size)];
  ++t.steps;
  t.decided += committed;
  if (foretold_ <= 0) return;
  ++t.warm;
  t.foretold += foretold_;
  t.decided_warm += committed;
}

std::string elastic_scheduler::report() const {
  nlohmann::json chunks = nlohmann::json::array();
  double foretold = 0, decided = 0;
  const auto most = static_cast<double>(std::max<std::size_t>(most_running_, 1));
  for (const std::int32_t c : settings_.candidates) {
    const double n = pooled_.expected(c, settings_.estimator);
    nlohmann::json one = {{"size", c},
                          {"n", n},
                          {"utilisation", n / c},
                          {"rows", pooled_.expected_rows(c)},
                          {"seconds_alone", latency_.seconds(c, 1)},
                          {"seconds_full", latency_.seconds(most * c, most)}};
    const auto i = static_cast<std::size_t>(c);
    if (i < made_.size() && made_[i].steps > 0) {
      const tally& t = made_[i];
      one["steps"] = t.steps;
      one["decided"] = t.decided / static_cast<double>(t.steps);
      if (t.warm > 0) one["foretold"] = t.foretold / static_cast<double>(t.warm);
      foretold += t.foretold;
      decided += t.decided_warm;
    }
    chunks.push_back(std::move(one));
  }
  nlohmann::json all = {{"requests", most_running_}, {"chunks", std::move(chunks)}};
  if (decided > 0) all["error"] = std::abs(foretold - decided) / decided;
  return all.dump();
}

void elastic_scheduler::forget(std::int32_t s) {
  if (static_cast<std::size_t>(s) < own_.size()) own_[static_cast<std::size_t>(s)].reset();
}

}  // namespace unmask
