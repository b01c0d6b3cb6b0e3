// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Delayed cache inside a block: a decided token is computed once more with its own id as input and
// then frozen, that is, left out of later forwards of the block. The plain rule (DC) freezes after
// that one forward; the neighbour-aware rule (DC+) only when the right neighbour was decided too.
// Rows attend to slots [0, last computed position], as the published engine's do, so that frozen
// positions beyond it are not seen; or to every slot whose K/V is stored.
#pragma once

#include "kernels/shared_vector.h"
#include "methods/parts/block_parameters.h"

namespace unmask {

enum class commit_mode : std::uint8_t {
  frozen,           // the rows not frozen yet; the block's K/V stays a mixture of frozen values
  full,             // all rows: exact K/V
  frozen_then_full  // SGLang: both, one after the other
};

struct delayed_settings {
  bool right_neighbour = true;
  commit_mode commit = commit_mode::frozen;
  bool stored_keys = false;  // what is frozen to the right of the last computed row is seen too
};
// keys: retained or stored.
parameter_spec delayed_keys_parameter();
delayed_settings delayed_settings_of(const parameters& p, bool right_neighbour);

// FOCUS opencompass/models/sdar.py (hf) and lmdeploy/pytorch/strategies/dllm (engine). The official
// loops sample; their recorded runs take the arg-max.
parameter_map official_delayed_cache(const parameter_map& recorded);

// What the slots of a delayed-cache recipe know in common, per place of the batch.
class delayed_state {
 public:
  explicit delayed_state(delayed_settings s) : settings(s) {}
  virtual ~delayed_state() = default;
  virtual void start(const batch& b, std::int32_t s);  // a request took place s
  virtual void observe(std::int32_t s, const sequence_step& step, std::int32_t committed) {
    (void)s, (void)step, (void)committed;
  }

  const delayed_settings settings;
  tensor frozen;                 // [S, max_length] uint8
  tensor extent_in, extent_out;  // [S] one past the last position computed at layer 0, at the end
  shared_vector<std::int32_t> first, last;  // [S] windows of the next operation

 protected:
  // 0 for every position of the place that start() was called for last. The windows are written
  // there once, because the operation may still read them.
  void clear_started(const batch& b, const tensor& flags) const;

 private:
  void prepare(const batch& b);
  shared_vector<std::int32_t> started_first_, started_last_;  // [S]
};

// Whether this forward decodes a block whose prompt is cached, and is not merely a repetition.
inline bool decodes_block(const sequence_step& step) {
  return step.active && step.what != forward_kind::prefill && !step.recompute;
}
// end[s] = one past the last position among the rows of s (0: none), which the host has waited for.
void write_extents(const row_lists& rows, std::int32_t sequences, std::int32_t* end);

// Rows that are not frozen, ascending.
class delayed_rows : public row_policy {
 public:
  explicit delayed_rows(std::shared_ptr<delayed_state> state, row_traits traits = {})
      : row_policy(std::move(traits)), state_(std::move(state)) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;

 protected:
  delayed_state& state() { return *state_; }

 private:
  std::shared_ptr<delayed_state> state_;
};

// Slots up to the last computed position. With stored_keys the whole block: what is not computed is
// frozen, so every position has its K/V.
class delayed_keys : public key_policy {
 public:
  delayed_keys(std::int32_t block, std::shared_ptr<delayed_state> state)
      : key_policy(block), state_(std::move(state)) {}
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override;

 protected:
  const delayed_state& state() const { return *state_; }

 private:
  std::shared_ptr<delayed_state> state_;
};

// block_pace that tells the shared state about new requests and decided tokens.
class delayed_pace final : public block_pace {
 public:
  // LMDeploy's fork runs one forward per turn when it caches inside blocks.
  delayed_pace(block_settings s, std::shared_ptr<delayed_state> state)
      : block_pace(std::move(s), 1), state_(std::move(state)) {}
  void start(batch& b, std::int32_t s) override {
    block_pace::start(b, s);
    state_->start(b, s);
  }
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override {
    block_pace::observe(b, s, step, outcome);
    state_->observe(s, step, outcome.taken);
  }

 private:
  std::shared_ptr<delayed_state> state_;
};

}  // namespace unmask
