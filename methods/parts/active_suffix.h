// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks behind which only some of the masks exist: rows and keys are prompt, blocks and those.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "methods/parts/common.h"

namespace unmask {

// The block that a sequence decodes and what is left behind it; pace, rows and cache share it.
struct active_suffix {
  std::int32_t block_first = -1, block_last = 0;
  std::vector<std::int32_t> kept;  // positions behind block_last, ascending
};
using active_suffixes = per_sequence<active_suffix>;

// What is in play and has not been dropped.
class active_rows final : public row_policy {
 public:
  explicit active_rows(std::shared_ptr<active_suffixes> active) : active_(std::move(active)) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;

 private:
  std::shared_ptr<active_suffixes> active_;
};

// K/V of what was kept lie right behind the block's: the keys of a forward are the first slots, and
// nothing dropped is among them.
class compact_cache final : public cache_policy {
 public:
  // keeps: between forwards.
  compact_cache(std::shared_ptr<active_suffixes> active, bool keeps)
      : active_(std::move(active)), keeps_(keeps) {}
  kv_storage storage(std::int32_t, std::int32_t length) const override {
    return keeps_ ? kv_storage{length, 0} : kv_storage{0, length};
  }
  bool prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache& cache) override;

 private:
  std::shared_ptr<active_suffixes> active_;
  bool keeps_;
};

// recipe_views::slot_positions of this cache.
std::function<std::vector<std::int32_t>(const step_choice&, std::int32_t, std::int32_t)> slots_of(
    std::shared_ptr<active_suffixes> active);

}  // namespace unmask
