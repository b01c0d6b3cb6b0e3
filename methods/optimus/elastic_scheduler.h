// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One chunk size for the whole batch, chosen before every step (Optimus, elastic scheduling):
//   c* = argmax over candidates of N(c) b / T(b c)
// with b running requests, N from what the steps decide and T from a latency model. With
// `expected_rows` b c becomes b R(c), R(c) <= c the rows that chunks of c turn out to hold. Pure:
// it knows neither batch nor clock.
#pragma once

#include <optional>

#include "methods/optimus/commit_estimator.h"
#include "methods/optimus/latency_model.h"

namespace unmask {

struct chunk_choice {
  std::int32_t size = 0;
  bool out_block = false;  // rows freed at the end of a block go to the next one
  bool operator==(const chunk_choice&) const = default;
};

struct elastic_settings {
  std::int32_t block = 32;
  std::vector<std::int32_t> candidates;  // ascending, 2 .. block
  bool out_block = false;                // "block + out-block streaming" is one more candidate
  estimator_kind estimator = estimator_kind::capped;
  bool expected_rows = false;    // T at b R(c) instead of b c
  bool per_request = false;      // sum of N_i over the running requests instead of b N
  double prior = 4;              // N(block) before anything was seen
  double hysteresis = 0;         // switch only for this relative gain
  std::int32_t cold_steps = 64;  // with enough masks at full size before deciding
  std::int32_t cold_masks = 16;
  bool cold_by_step = false;  // a step counts once, however many requests it has; else each of them
  std::int32_t full_every = 0;  // > 0: every so many steps one at full size
  double overhead_seconds = 0;  // added to every T
};

class elastic_scheduler {
 public:
  elastic_scheduler(elastic_settings settings, latency_model latency);

  // For the next step of the requests at these places; none: the full size.
  chunk_choice choose(const std::vector<std::int32_t>& running);
  // What a decoding step of the request at place s showed; `committed` tokens.
  void observe(std::int32_t s, const chunk_choice& made_with, const step_observation& step,
               std::int32_t committed);
  // A decode forward of one request made with this choice decided so many tokens: for report().
  void record(const chunk_choice& made_with, std::int32_t committed);
  void forget(std::int32_t s);  // another request takes place s

  // What N(c) came to, a JSON object (Optimus Fig. 5b): per candidate c the estimate N(c) at the
  // end, token utilisation N(c) / c, rows R(c) and T(b c) for one request and for the largest batch
  // of the run; where steps were made with c, their number (decode forwards of one request, those
  // that only refresh K/V among them), the N(c) foretold when c was chosen and the tokens decided,
  // both means over these steps. `error`: |sum foretold - sum decided| / sum decided, all warm steps.
  std::string report() const;

  bool warm() const;  // enough was seen to decide
  double expected(const chunk_choice& choice, const std::vector<std::int32_t>& running) const;
  // Predicted tokens per second of a choice.
  double rate(const chunk_choice& choice, const std::vector<std::int32_t>& running) const;
  const commit_estimator& pooled() const { return pooled_; }
  const latency_model& latency() const { return latency_; }

 private:
  chunk_choice decide(const std::vector<std::int32_t>& running);
  // Cold steps of one kind: inside a block, or with out-block streaming.
  struct cold_count {
    std::int64_t seen = 0, last_step = -1;
  };
  void count_cold(cold_count& of) const;
  elastic_settings settings_;
  latency_model latency_;
  commit_estimator pooled_;
  std::vector<std::optional<commit_estimator>> own_;
  double out_block_commits_;
  cold_count cold_, cold_beyond_;
  std::int64_t out_block_seen_ = 0, steps_ = 0;
  chunk_choice current_;
  struct tally {
    std::int64_t steps = 0, warm = 0;
    double foretold = 0, decided = 0, decided_warm = 0;
  };
  std::vector<tally> made_;  // by size
  double foretold_ = 0;      // N of the choice in work, per request; 0: still cold
  std::size_t most_running_ = 0;
};

}  // namespace unmask
