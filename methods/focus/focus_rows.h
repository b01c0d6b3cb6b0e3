// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS: inside layer 1 of each forward the masked rows that will most likely not be decided now
// are dropped. What will be decided shows in how much attention masked tokens gain from each other
// between layers 0 and 1.
#pragma once

#include "methods/focus/delayed_cache.h"

namespace unmask {

enum class focus_selection : std::uint8_t { dynamic, top, bottom, random };
enum class average_scope : std::uint8_t {
  block,        // mean over the steps of the block; its first step assumes one token
  block_carry,  // as block, but the first step keeps the budget of the step before it
  request       // mean over all steps of the request
};

struct focus_settings {
  focus_selection selection = focus_selection::dynamic;
  std::int32_t k = 0;  // budget of the fixed selections
  float alpha = 1.5F;  // budget = ceil(alpha * mean tokens decided per step)
  average_scope scope = average_scope::block;
  std::int32_t initial_k = 0;     // budget before the first step; 0: ceil(alpha)
  bool count_empty = false;       // commit forwards count as steps that decided nothing
  bool whole_block = false;       // importance over all computed rows instead of the masked ones
  bool round_importance = false;  // to bfloat16, as a bfloat16 model does
  bool layer1_score = false;      // rank by layer 1 alone instead of layer 1 minus layer 0
  bool add_mean = true;           // deviation rule: score >= mean + deviation; false: >= deviation
  std::int32_t ddof = 0;
  bool ar_context = true;
  bool adjacent_rows = false;
  bool placeholder_integrity = true;
  bool layer1_processed = false;  // layer 1 sees keys up to the last computed position
};

// ceil(max(average, 1) * alpha) in float32, at least 1 (FOCUS section 4.2).
std::int32_t focus_budget(float average, float alpha);

class focus_state final : public delayed_state {
 public:
  focus_state(delayed_settings d, focus_settings f) : delayed_state(d), focus(f) {}
  void start(const batch& b, std::int32_t s) override;
  void observe(std::int32_t s, const sequence_step& step, std::int32_t committed) override;

  struct record {
    std::int32_t block = -1;  // first position of the block the numbers below are about
    std::int64_t decided = 0, steps = 0;
    std::int32_t budget = 0;  // of the next step, once there was one
    std::int32_t processed_end = 0;
    float average() const {
      return steps > 0 ? static_cast<float>(decided) / static_cast<float>(steps) : 1.0F;
    }
  };
  // The record for a step of the block that begins at `block`.
  record& enter(std::int32_t s, std::int32_t block);
  std::int32_t budget_of(const record& r) const;

  const focus_settings focus;
  per_sequence<record> records;
  // Without placeholder integrity: positions with K/V in every layer, and their list per sequence.
  tensor processed;  // [S, max_length] uint8
  tensor key_begin, key_slot, key_sequence;
};

class focus_rows final : public delayed_rows {
 public:
  explicit focus_rows(std::shared_ptr<focus_state> state) : delayed_rows(state), state_(state) {}
  bool narrow(const batch& b, const step_plan& plan, std::int32_t layer, const tensor_view& q,
              const tensor_view& k, row_lists& rows, tensor& kept) override;
  bool reads_activations() const override { return true; }
  eviction_view eviction(std::int32_t s) const override;

 private:
  void prepare(const batch& b, std::int64_t rows);
  void find(const batch& b, const step_plan& plan, const row_lists& rows);
  void importance(const batch& b, const row_lists& rows, const tensor_view& q, const tensor_view& k,
                  const tensor& out);
  void score(const batch& b);
  void finish(const batch& b, const step_plan& plan, const row_lists& rows);
  candidate_set masked(std::int32_t sequences) const {
    return {sequences, count_, begin_.as<std::int32_t>(), position_.as<std::int32_t>(),
            row_.as<std::int32_t>()};
  }
  std::shared_ptr<focus_state> state_;
  std::int32_t count_ = 0;  // masked rows of the evicting sequences
  tensor begin_, position_, row_, target_, processed_end_, accept_;
  tensor layer0_, layer1_, delta_, score_;          // [count_] of the masked rows
  tensor list_begin_, list_, list_sequence_, all_;  // importance over whole blocks
  std::vector<eviction_view> views_;
};

class focus_keys final : public delayed_keys {
 public:
  focus_keys(std::int32_t block, std::shared_ptr<focus_state> state)
      : delayed_keys(block, state), state_(std::move(state)) {}
  key_set select(const batch& b, const step_plan& plan, std::int32_t layer, const tensor_view& q,
                 const paged_kv& cache, const std::int32_t* kv_length) override;

 private:
  std::shared_ptr<focus_state> state_;
};

}  // namespace unmask
