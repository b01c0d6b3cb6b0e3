// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The slots of Optimus: a pace that lays out one chunk per request and step, the row list of the
// chunks, the keys they see, and the settling of K/V. The slots share one state.
#pragma once

#include <memory>
#include <optional>

#include "kernels/shared_vector.h"
#include "methods/optimus/chunk_builder.h"
#include "methods/optimus/elastic_scheduler.h"
#include "methods/parts/block_parameters.h"

namespace unmask {

struct optimus_settings {
  block_settings block;
  chunk_settings chunk;
  std::int32_t size = 0;       // of every chunk; 0: elastic
  bool out_block = false;      // fixed size: always; elastic: as one more candidate
  bool full_mask = false;      // out-block rows and rows of the block see each other
  bool stale_suffix = false;   // masks outside the chunk keep the K/V of the block's first forward
  bool final_refresh = false;  // one more forward over every complete block
  bool stop_at_prefix = false;
  bool prefill_emits = true;
  bool prefill_apart = false;  // no decoding in a step that prefills
  double overhead_seconds = 0;
  // Rows are dropped between layers: keys are listed, so that later layers can leave some out.
  bool lists_keys = false;
};

class optimus_state {
 public:
  optimus_state(const optimus_settings& s, std::optional<elastic_scheduler> e)
      : settings(s), elastic(std::move(e)) {}
  void start(const batch& b, std::int32_t s);

  const optimus_settings settings;
  std::optional<elastic_scheduler> elastic;
  chunk_choice choice;                         // of this step
  std::vector<chunk_request> requests;         // of this step, one per place
  std::vector<step_observation> observations;  // of this step, elastic only
  row_lists rows;                              // handles of the loop's lists, of this step
  tensor settles;                              // [R] uint8: K/V final after this forward
  tensor kv_end;                               // [S] slots [0, kv_end) are seen
  // Out-block streaming leaves holes in the block: explicit lists of the slots that are seen.
  bool lists() const { return settings.out_block || settings.lists_keys; }
  tensor visible;  // [S, max_length] uint8
  tensor key_begin, key_slot, key_sequence;

 private:
  void prepare(const batch& b);
};

class optimus_pace : public pace_policy {
 public:
  explicit optimus_pace(std::shared_ptr<optimus_state> state);
  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override;
  void start(batch& b, std::int32_t s) override;
  // Who runs, and how large the chunks are.
  void begin(const batch& b, const schedule_action* parts) override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;
  std::string learnt() const override { return state_->elastic ? state_->elastic->report() : ""; }

 private:
  struct progress {
    std::int32_t history = 0;  // first position of the current block
    bool prefilled = false;
    std::int32_t entered = 0;  // prompt positions already in the cache while prefilling
    bool opened = false;       // the block had its first forward
    bool checked = false;      // the block is complete and the request goes on
    bool refresh = false;      // the next forward recomputes the whole block
  };
  std::int32_t prefill_end(const batch& b, std::int32_t s) const;
  void advance(batch& b, std::int32_t s);
  bool stops_at_prefix(const batch& b, std::int32_t s, const progress& p,
                       std::int32_t* answer_end) const;
  std::shared_ptr<optimus_state> state_;
  per_sequence<progress> progress_;
  std::vector<std::int32_t> running_;
  bool prefilling_ = false;
};

class optimus_rows final : public row_policy {
 public:
  explicit optimus_rows(std::shared_ptr<optimus_state> state) : state_(std::move(state)) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;

 private:
  std::shared_ptr<optimus_state> state_;
  std::optional<chunk_builder> builder_;
  shared_vector<std::int32_t> zero_;
};

class optimus_keys : public key_policy {
 public:
  optimus_keys(std::int32_t block, std::shared_ptr<optimus_state> state)
      : key_policy(block), state_(std::move(state)) {}
  // Listed slots ascend and equal positions; those of the next block lie behind the row's own.
  layer_keys select(const batch& b, const step_choice& plan, std::int32_t layer,
                    const std::int32_t* kv_length) const override;

 private:
  std::shared_ptr<optimus_state> state_;
};

// What settles becomes cached; provisional K/V is never seen again.
class optimus_cache final : public cache_policy {
 public:
  explicit optimus_cache(std::shared_ptr<optimus_state> state)
      : cache_policy({.keeps_decided = true}), state_(std::move(state)) {}
  kv_storage storage(std::int32_t, std::int32_t length) const override { return {length, 0}; }
  void settle(batch& b, const step_choice& plan) override;

 private:
  std::shared_ptr<optimus_state> state_;
};

// Threshold decisions; for the elastic scheduler also which masks passed it on their own.
class optimus_unmask final : public block_unmask {
 public:
  optimus_unmask(block_unmask_settings u, std::shared_ptr<optimus_state> state)
      : block_unmask(std::move(u)), state_(std::move(state)) {}
  void decide(const batch& b, const step_choice& plan, candidate_lists& c) override;
  // Learns from a step; of replayed decisions, those that were taken are those that passed.
  void learn(const batch& b, const step_choice& plan, const candidate_lists& c) override;

 private:
  void note(const batch& b, const step_choice& plan, const candidate_lists& c,
            const std::uint8_t* passed);
  std::shared_ptr<optimus_state> state_;
  tensor passed_;
};

}  // namespace unmask
