// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS: delayed caches (DC+) and the eviction of masked rows inside layer 1.
#pragma once

#include "methods/focus/delayed_cache.h"
#include "methods/focus/focus_eviction.h"

namespace unmask {

class focus_state final : public delayed_state {
 public:
  focus_state(delayed_settings d, const focus_settings& f, bool layer1_all, bool by_prefill)
      : delayed_state(d),
        budgets(std::make_shared<focus_budgets>(f)),
        layer1_processed(layer1_all),
        counts_prefill(by_prefill) {}
  void start(const batch& b, std::int32_t s) override;
  void show_stored(const batch& b, const step_choice& plan, const row_lists& rows);
  void observe(std::int32_t s, const sequence_step& step, std::int32_t committed) override {
    budgets->observe(s, step, committed);
  }

  const std::shared_ptr<focus_budgets> budgets;
  const bool layer1_processed;  // layer 1 sees keys up to the last computed position
  // A prefill counts as having taken the positions of its block through every layer.
  const bool counts_prefill;
  // Whether layers above 1 see a list of slots: what has K/V is no prefix then.
  bool lists_keys() const {
    return settings.stored_keys || !budgets->settings.placeholder_integrity;
  }
  // Positions with K/V in every layer, if somebody asks for them, and their list per sequence.
  tensor processed;  // [S, max_length] uint8
  tensor shown;      // [S, max_length] uint8, with stored_keys: which of them rows see
  tensor key_begin, key_slot, key_sequence;
  shared_vector<std::int32_t> zero;  // [S]
};

class focus_rows final : public delayed_rows, public ranked_by_activations {
 public:
  explicit focus_rows(std::shared_ptr<focus_state> state)
      : delayed_rows(state, {.narrows_at = focus_eviction::layers(), .keeps = 1.0 / 3}),
        state_(state),
        eviction_(state->budgets) {}
  bool narrow(const batch& b, const step_choice& plan, std::int32_t layer, const tensor_view& q,
              const tensor_view& k, row_lists& rows, tensor& kept) override;
  void rank_by(decision_order order) override { eviction_.rank_by(std::move(order)); }
  method_report eviction(std::int32_t s) const { return eviction_.report(s); }

 private:
  void finish(const batch& b, const step_choice& plan, const row_lists& rows, bool dropped);
  std::shared_ptr<focus_state> state_;
  focus_eviction eviction_;
};

class focus_keys final : public delayed_keys {
 public:
  focus_keys(std::int32_t block, std::shared_ptr<focus_state> state)
      : delayed_keys(block, state), state_(std::move(state)) {}
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override;

 private:
  std::shared_ptr<focus_state> state_;
};

}  // namespace unmask
