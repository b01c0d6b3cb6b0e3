// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How many masked rows FOCUS lets a sequence keep in a forward, from the tokens it decided per step
// so far (section 4.2, appendix E).
#pragma once

#include <cmath>
#include <cstdint>

namespace unmask {

enum class average_scope : std::uint8_t {
  block,        // mean over the steps of the block; its first step assumes one token
  block_carry,  // as block, but the first step keeps the budget of the step before it
  request       // mean over all steps of the request
};

struct focus_rules {
  std::int32_t fixed = 0;  // > 0: this many, whatever was decided
  float alpha = 1.5F;      // budget = ceil(alpha * mean tokens decided per step)
  average_scope scope = average_scope::block;
  std::int32_t initial_k = 0;  // budget before the first step; 0: ceil(alpha)
  bool count_empty = false;    // commit forwards count as steps that decided nothing
  bool count_prefill = false;  // so does the prefill, if it opened a block shared with the prompt
  bool floor_mean = true;      // a mean below one token counts as one
};

struct focus_record {
  std::int32_t block = -1;  // first position of the block the numbers below are about
  std::int32_t budget = 0;  // of the next step, once there was one
  std::int64_t decided = 0, steps = 0;
  std::int32_t processed_end = 0;  // one past the last position that reached the last layer
};

// Tokens per step, 1 before the first.
inline float focus_average(const focus_record& r) {
  return r.steps > 0 ? static_cast<float>(r.decided) / static_cast<float>(r.steps) : 1.0F;
}

// ceil(average * alpha) in float32, at least 1; with `floored` the average is at least 1.
inline std::int32_t focus_budget(float average, float alpha, bool floored = true) {
  const float mean = floored && !(average > 1.0F) ? 1.0F : average;
  const auto budget = static_cast<std::int32_t>(ceilf(mean * alpha));
  return budget > 1 ? budget : 1;
}

inline std::int32_t budget_of(const focus_rules& rules, const focus_record& r) {
  if (rules.fixed > 0) return rules.fixed;
  if (r.steps > 0) return focus_budget(focus_average(r), rules.alpha, rules.floor_mean);
  if (rules.scope == average_scope::block_carry && r.budget > 0) return r.budget;
  return rules.initial_k > 0 ? rules.initial_k : focus_budget(1.0F, rules.alpha);
}

// The budget of a step of the block that begins at `block`; a new block empties the record.
inline std::int32_t enter_block(const focus_rules& rules, focus_record& r, std::int32_t block) {
  if (r.block != block) {
    r.block = block;
    if (rules.scope != average_scope::request) r.decided = r.steps = 0;
  }
  return budget_of(rules, r);
}

// After the decisions of a forward.
inline void count_decided(const focus_rules& rules, focus_record& r, std::int32_t committed) {
  if (committed == 0 && !rules.count_empty) return;
  r.decided += committed;
  ++r.steps;
  r.budget = budget_of(rules, r);
}

}  // namespace unmask
