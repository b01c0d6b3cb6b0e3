// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS's eviction on its own, for any pace: inside layer 1 of each forward the masked rows that
// will most likely not be decided now are dropped. What will be decided shows in how much attention
// masked tokens gain from each other between layers 0 and 1.
#pragma once

#include <memory>
#include <vector>

#include "harness/decode/imposed.h"
#include "harness/decode/parameters.h"
#include "harness/decode/policies.h"
#include "kernels/shared_vector.h"
#include "methods/focus/focus_budget.h"
#include "methods/parts/common.h"

namespace unmask {

enum class focus_selection : std::uint8_t { dynamic, top, bottom, random };
struct focus_settings {
  focus_selection selection = focus_selection::dynamic;
  focus_rules rules;
  bool whole_block = false;       // importance over all computed rows instead of the masked ones
  bool round_importance = false;  // to bfloat16, as a bfloat16 model does
  bool layer1_score = false;      // rank by layer 1 alone instead of layer 1 minus layer 0
  bool add_mean = true;           // deviation rule: score >= mean + deviation; false: >= deviation
  bool block_deviation = false;  // the deviation is of all computed rows instead of the masked ones
  std::int32_t ddof = 0;
  bool ar_context = true;
  bool adjacent_rows = false;
  bool placeholder_integrity = true;
};

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
  void start(std::int32_t s) { records.at(s) = {}; }
  // After the decisions of a forward. The prefill's own denoising step counts if the rules say so.
  void observe(std::int32_t s, const sequence_step& step, std::int32_t committed) {
    if (step.what == forward_kind::prefill) {
      if (!settings.rules.count_prefill || step.candidate_first == step.candidate_last) return;
      enter_block(settings.rules, records.at(s), step.block_first);
    }
    count_decided(settings.rules, records.at(s), committed);
  }

  const focus_settings settings;
  per_sequence<focus_record> records;
};

// row_policy::narrow of FOCUS. Sequences in their prefill, and those with no more masked rows than
// their budget, keep all rows.
class focus_eviction {
 public:
  explicit focus_eviction(std::shared_ptr<focus_budgets> budgets) : budgets_(std::move(budgets)) {}
  static std::vector<std::int32_t> layers() { return {0, 1}; }  // row_traits::narrows_at
  // Layer 0 measures; layer 1 measures again and drops rows (`kept` as in row_policy::narrow).
  // True when rows were dropped.
  bool narrow(const batch& b, const step_choice& plan, std::int32_t layer, const tensor_view& q,
              const tensor_view& k, row_lists& rows, tensor& kept);
  // Imposed decisions: a masked row that is decided k steps from now (0: in this one) scores 2^-k, so
  // that what is to be decided stays and the deviation rule keeps about the rows of the next step too.
  void rank_by(decision_order order) { order_ = std::move(order); }
  // How the last forward evicted, once the host has waited for it and before its decisions are
  // observed; the README says what the names mean.
  method_report report(std::int32_t s) const;

 private:
  void prepare(const batch& b, std::int64_t rows);
  // Whether the host looks at scores between the layers: at those of a block, or to impose others.
  bool scores_on_host() const { return budgets_->settings.block_deviation || order_; }
  void find(const batch& b, const step_choice& plan, const row_lists& rows);
  void importance(const batch& b, const tensor_view& q, const tensor_view& k, const tensor& out);
  const float* score(const batch& b);
  void impose(const batch& b);
  void raise_targets(const batch& b);
  std::int32_t list_rows();
  candidate_set masked(std::int32_t sequences) const {
    return {sequences, count_, begin_.as<std::int32_t>(), position_.as<std::int32_t>(),
            row_.as<std::int32_t>()};
  }
  std::shared_ptr<focus_budgets> budgets_;
  const backend* backend_ = nullptr;
  decision_order order_;    // null: activations rank
  std::int32_t count_ = 0;  // masked rows of the evicting sequences
  // [S], all 0 for a sequence that evicts nothing.
  shared_vector<std::int32_t> target_;                // masked rows to keep
  shared_vector<std::int32_t> first_, last_;          // window of its masked rows
  shared_vector<std::int32_t> row_first_, row_last_;  // its rows
  shared_vector<std::int32_t> processed_end_;         // of the record, for every sequence
  std::vector<std::int32_t> budget_;  // what the record allows; 0: no part in the eviction
  tensor begin_, position_, row_, accept_;
  tensor layer0_, layer1_, delta_, score_;  // [count_] of the masked rows
  tensor list_begin_, list_, all0_, all1_;  // importance over whole blocks
};

}  // namespace unmask
