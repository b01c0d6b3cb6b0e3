// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// N(c): tokens one request decides per step with chunks of c, estimated from the steps it makes
// anyway (Optimus, elastic scheduling). A step that shows masks from left to right which of them
// passed the threshold says what every smaller chunk would have decided: G(m) = max(1, passes among
// the first m masks). Where no mask was left outside the chunk it says so for every m.
#pragma once

#include <cstdint>
#include <vector>

namespace unmask {

// One step of one request.
struct step_observation {
  std::int32_t size = 0;             // chunk size asked for
  bool complete = false;             // no mask of the block outside the chunk
  std::vector<std::uint8_t> passed;  // per mask of the chunk, left to right: reached the threshold
  std::vector<std::int32_t> slot;    // per mask: its place among the rows of the chunk
  std::int32_t open = 0;             // tokens of the block not cached before the step; 0: unknown
};

enum class estimator_kind : std::uint8_t {
  prefix_count,  // (1 - share of steps without masks) G(c): the literal reading
  slot_count,    // passes among the first c rows of full-size steps
  fixed_point,   // N = G(c - N): rows spent on refreshing decided tokens carry no masks
  capped         // the smaller of prefix_count and fixed_point
};

class commit_estimator {
 public:
  // `prior`: G(block) before anything was seen; G grows linearly from G(1) = 1.
  commit_estimator(std::int32_t block, double prior);

  // Each request-step weighs 1 / 64, the first 64 all alike.
  void observe(const step_observation& step);
  double expected(std::int32_t c, estimator_kind kind) const;
  // Mean rows of a step: min(c, tokens not cached), which ends below c towards a block's end.
  double expected_rows(std::int32_t c) const;

  double passes(double m) const;                   // G, linear between integers, G(0) = 0
  double pass_rate(std::int32_t j) const;          // share of steps whose j-th mask (from 1) passed
  double mask_free() const { return mask_free_; }  // share of full-size steps without masks
  std::int64_t steps() const { return steps_; }    // request-steps with masks

 private:
  std::int32_t block_;
  std::vector<double> g_, slots_, rate_, rows_;  // [block + 1]
  std::vector<std::int64_t> rate_steps_;
  double mask_free_ = 0;
  std::int64_t steps_ = 0, full_steps_ = 0, open_steps_ = 0;
};

}  // namespace unmask
