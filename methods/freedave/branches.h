// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Branches of a block side by side in one forward: branch 0 is the canvas, branch i holds guesses of the
// next i steps as well. Each row sees what lies outside the window and its own branch; the K/V of
// branch 0 go to its positions' slots, those of the others to slots behind the canvas's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/decode/policies.h"
#include "methods/parts/common.h"

namespace unmask::freedave {

struct settings {
  std::int32_t block_length = 32;
  std::int32_t draft_steps = 4;  // branches at most
  std::int32_t per_step = 1;     // tokens that a step decides
  bool causal = true;            // the model's mask is block-causal: blocks are committed
  bool shifted = false;          // position p is read from row p - 1
  bool prefix = false;           // bidirectional: a branch repeats the suffix, which is not cached
  bool eager = false;            // the window takes further blocks, into which drafts may run
  std::vector<std::int32_t> exit_ids;  // a block of nothing but these ends the answer
  // Blocks that the window has behind the one in work, at most.
  std::int32_t further_blocks() const {
    if (!eager) return 0;
    const std::int32_t steps = (block_length + per_step - 1) / per_step;
    return (draft_steps + steps - 1) / steps;
  }
  // Rows of a branch at most, of a canvas with so many positions behind the prompt.
  std::int32_t widest(std::int32_t generated) const {
    return prefix ? generated : block_length * (1 + further_blocks());
  }
};

// What the policies of one recipe know of the branches; [S] each, or [S, length].
struct branch_state {
  settings set;
  tensor guess, turn;  // op::verify_drafts
  tensor chosen, left, left_in_block;
  // What the planned step has: branches, rows of each, whether it decides its first position alone,
  // and the end of the block in work.
  shared_vector<std::int32_t> branches, width, first_only, block_last;

  explicit branch_state(const settings& s) : set(s) {}
  void make_room(const batch& b);
  // The slot of branch i's row at `position`; `first` is the first row of a branch.
  std::int32_t slot(const sequence& q, std::int32_t branch, std::int32_t position,
                    std::int32_t first) const {
    if (branch == 0) return position;
    return q.length + (branch - 1) * set.widest(q.length - q.prompt_length) + position - first;
  }
};
using shared_branches = std::shared_ptr<branch_state>;

// Views: one for each branch; under a block-causal mask one for each block of a branch.
class branch_rows final : public row_policy {
 public:
  explicit branch_rows(shared_branches shared)
      : row_policy({.views = shared->set.draft_steps * (1 + shared->set.further_blocks()) + 1,
                    .view_positions = shared->set.causal ? shared->set.block_length : 0}),
        shared_(std::move(shared)) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;

 private:
  void add_view(const batch& b, std::int32_t s, std::int32_t branch, std::int32_t first,
                std::int32_t last, std::int32_t origin, row_lists& rows) const;
  shared_branches shared_;
};

class branch_keys final : public key_policy {
 public:
  explicit branch_keys(shared_branches shared)
      : key_policy(0, {.by_view = true}), shared_(std::move(shared)) {}
  void see(const batch& b, const step_choice& plan, row_lists& rows) const override;

 private:
  shared_branches shared_;
};

class branch_slots final : public cache_policy {
 public:
  explicit branch_slots(const settings& s) : settings_(s) {}
  kv_storage storage(std::int32_t prompt, std::int32_t length) const override {
    return {length + (settings_.draft_steps - 1) * settings_.widest(length - prompt), 0};
  }

 private:
  settings settings_;
};

}  // namespace unmask::freedave
