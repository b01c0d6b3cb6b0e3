// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A shadow of the block in work: masks at its positions, behind prompt and canvas in every forward. The
// row of a position sees the canvas but that position, and all of the shadow; canvas rows see the
// canvas only. Nothing of it outlives a forward.
#pragma once

#include "harness/decode/policies.h"

namespace unmask::wino {

// Views of a sequence: the canvas, then one for each shadow row. Canvas rows judge masks, shadow rows
// judge decided positions.
class shadow_rows final : public row_policy {
 public:
  explicit shadow_rows(std::int32_t block) : row_policy({.views = 1 + block}) {}
  void select(const batch& b, const step_choice& plan, row_lists& rows) override;
};

class shadow_keys final : public key_policy {
 public:
  shadow_keys() : key_policy(0, {.by_view = true}) {}
  void see(const batch& b, const step_choice& plan, row_lists& rows) const override;
};

// One layer of scratch: slots [0, length) are the canvas's positions, `block` more the shadow's.
class shadow_slots final : public cache_policy {
 public:
  explicit shadow_slots(std::int32_t block) : block_(block) {}
  kv_storage storage(std::int32_t, std::int32_t length) const override {
    return {0, length + block_};
  }
  bool prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache& cache) override;

 private:
  std::int32_t block_;
};

}  // namespace unmask::wino
