// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Several unfinished blocks in flight: the pace that opens and stores them, and the views by which the
// rows of a block see it and what lies before it.
#pragma once

#include <memory>
#include <vector>

#include "harness/decode/policies.h"
#include "methods/parts/common.h"

namespace unmask::multi_block {

struct settings {
  bool diffulex =
      false;  // blocks from position 0; else from the prompt's end, the prompt being one
  std::int32_t block_length = 32;
  std::int32_t max_blocks = 0;  // not cached at once; 0: any number
  double add_threshold = 0.1, activation_threshold = 0.95;
  std::vector<std::int32_t> stop_ids;
};

// Where a sequence's blocks end that are [0, cached) in the cache, [cached, stored) complete and kept by
// the next forward, [stored, open) active: they have masks, or one before them has.
struct block_range {
  std::int32_t cached = 0, stored = 0, open = 0;
  bool first = true;  // the next forward is the first
};

// What the policies of one recipe share. forced [S, blocks] uint8: full blocks, which decide a token in
// every forward; origin [S]: where block 0 of a sequence begins.
struct flight {
  settings set;
  tensor forced;
  shared_vector<std::int32_t> origin;
  per_sequence<block_range> range;

  explicit flight(const settings& s) : set(s) {}
  void make_room(const batch& b);
};
using shared_flight = std::shared_ptr<flight>;

class open_blocks final : public pace_policy {
 public:
  explicit open_blocks(shared_flight shared)
      : pace_policy({.block = shared->set.diffulex ? shared->set.block_length : 0}),
        shared_(std::move(shared)) {}
  std::int32_t canvas_length(const model_config& model,
                             const sequence_request& request) const override;
  void start(batch& b, std::int32_t s) override;
  std::int32_t prefill_rows(const batch& b, std::int32_t s) const override;
  sequence_step plan(const batch& b, std::int32_t s) override;
  void observe(batch& b, std::int32_t s, const sequence_step& step,
               const step_outcome& outcome) override;

 private:
  std::int32_t origin(std::int32_t s) const { return shared_->origin[static_cast<std::size_t>(s)]; }
  // Decided share of the block that ends at `end`; 1 before the first.
  double progress(const batch& b, std::int32_t s, std::int32_t end) const;
  bool has_stopped(const batch& b, std::int32_t s) const;
  void open_next(const batch& b, std::int32_t s);
  void mark_full_blocks(const batch& b, std::int32_t s);

  shared_flight shared_;
};

class block_rows final : public row_policy {
 public:
  explicit block_rows(shared_flight shared)
      : row_policy({.views = 2, .view_positions = shared->set.block_length, .carries = true}),
        shared_(std::move(shared)) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;

 private:
  shared_flight shared_;
};

class block_keys final : public key_policy {
 public:
  block_keys() : key_policy(0, {.by_view = true}) {}
  void see(const batch& b, const step_choice& plan, row_lists& rows) const override;
};

}  // namespace unmask::multi_block
