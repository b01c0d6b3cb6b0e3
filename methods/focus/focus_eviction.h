// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS's eviction on its own, for any pace: inside layer 1 of each forward the masked rows that
// will most likely not be decided now are dropped. What will be decided shows in how much attention
// masked tokens gain from each other between layers 0 and 1.
#pragma once

#include <memory>
#include <vector>

#include "harness/decode/parameters.h"
#include "harness/decode/policies.h"
#include "kernels/shared_vector.h"
#include "methods/baselines/common.h"

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
};

// ceil(max(average, 1) * alpha) in float32, at least 1 (FOCUS section 4.2).
std::int32_t focus_budget(float average, float alpha);

// The parameters of the eviction, their settings, and the checks that need both: `method` names
// who asks.
std::vector<parameter_spec> focus_eviction_parameters();
focus_settings focus_settings_of(const parameters& p);
void check_focus_eviction(const std::string& method, const model_config& model,
                          const parameters& p);

// How many masked rows each sequence may keep, from the tokens it decided per step so far.
class focus_budgets {
 public:
  explicit focus_budgets(const focus_settings& f) : settings(f) {}
  struct record {
    std::int32_t block = -1;  // first position of the block the numbers below are about
    std::int64_t decided = 0, steps = 0;
    std::int32_t budget = 0;  // of the next step, once there was one
    std::int32_t processed_end = 0;
    float average() const {
      return steps > 0 ? static_cast<float>(decided) / static_cast<float>(steps) : 1.0F;
    }
  };
  void start(std::int32_t s) { records.at(s) = {}; }
  // After the decisions of a forward. The prefill's own denoising step is not counted.
  void observe(std::int32_t s, const sequence_step& step, std::int32_t committed);
  // The record for a step of the block that begins at `block`.
  record& enter(std::int32_t s, std::int32_t block);
  std::int32_t budget_of(const record& r) const;

  const focus_settings settings;
  per_sequence<record> records;
};

// row_policy::narrow of FOCUS. Sequences in their prefill, and those with no more masked rows than
// their budget, keep all rows.
class focus_eviction {
 public:
  explicit focus_eviction(std::shared_ptr<focus_budgets> budgets) : budgets_(std::move(budgets)) {}
  // Layer 0 measures; layer 1 measures again and drops rows (`kept` as in row_policy::narrow).
  // True when rows were dropped.
  bool narrow(const batch& b, const step_plan& plan, std::int32_t layer, const tensor_view& q,
              const tensor_view& k, row_lists& rows, tensor& kept);
  eviction_view view(std::int32_t s) const {
    return views_.empty() ? eviction_view{} : views_[static_cast<std::size_t>(s)];
  }
  void note_processed(std::int32_t s, std::int32_t end) {
    views_[static_cast<std::size_t>(s)].processed_end = end;
  }

 private:
  void prepare(const batch& b, std::int64_t rows);
  void find(const batch& b, const step_plan& plan, const row_lists& rows);
  void importance(const batch& b, const row_lists& rows, const tensor_view& q, const tensor_view& k,
                  const tensor& out);
  void score(const batch& b);
  candidate_set masked(std::int32_t sequences) const {
    return {sequences, count_, begin_.as<std::int32_t>(), position_.as<std::int32_t>(),
            row_.as<std::int32_t>()};
  }
  std::shared_ptr<focus_budgets> budgets_;
  std::int32_t count_ = 0;                    // masked rows of the evicting sequences
  shared_vector<std::int32_t> first_, last_;  // [S] windows of the next operation
  tensor begin_, position_, row_, target_, processed_end_, accept_;
  tensor layer0_, layer1_, delta_, score_;          // [count_] of the masked rows
  tensor list_begin_, list_, list_sequence_, all_;  // importance over whole blocks
  std::vector<eviction_view> views_;
};

}  // namespace unmask
