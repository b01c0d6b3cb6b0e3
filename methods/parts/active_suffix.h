// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Methods that keep only some of the masks behind the current block: rows and keys are those of the
// prompt, of the blocks up to the current one, and of the masks that were kept.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "methods/parts/common.h"

namespace unmask {

// The current block of a sequence and the positions kept behind it; pace, rows and cache share it.
struct active_suffix {
  std::int32_t block_first = -1, block_last = 0;
  std::vector<std::int32_t> kept;  // positions behind block_last, ascending
};
using active_suffixes = per_sequence<active_suffix>;

// Computes the positions of the step that were not dropped.
class active_rows final : public row_policy {
 public:
  explicit active_rows(std::shared_ptr<active_suffixes> active) : active_(std::move(active)) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;

 private:
  std::shared_ptr<active_suffixes> active_;
};

// Stores the KV of the kept positions right behind that of the block. So the keys of a forward pass
// are the first cache slots, without gaps.
class compact_cache final : public cache_policy {
 public:
  // keeps: whether the KV outlives a forward pass.
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

// Returns the function recipe_views::slot_positions for this cache.
std::function<std::vector<std::int32_t>(const step_choice&, std::int32_t, std::int32_t)> slots_of(
    std::shared_ptr<active_suffixes> active);

}  // namespace unmask
