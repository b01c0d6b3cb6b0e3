// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Policies that several baselines share.
#pragma once

#include <algorithm>
#include <vector>

#include "harness/decode/policies.h"

namespace unmask {

// No K/V outlives a forward: one layer of scratch for all.
class no_cache final : public cache_policy {
 public:
  std::int32_t stored_layers(const model_config&) const override { return 1; }
};

// Every forward writes its rows' K/V for good; later forwards see them as history.
class append_cache : public cache_policy {
 public:
  std::int32_t stored_layers(const model_config& model) const override { return model.layers; }
};

// Per-place records of a pace; grows with the batch.
template <class T>
class per_sequence {
 public:
  T& at(std::int32_t s) {
    if (static_cast<std::size_t>(s) >= items_.size())
      items_.resize(static_cast<std::size_t>(s) + 1);
    return items_[static_cast<std::size_t>(s)];
  }

 private:
  std::vector<T> items_;
};

// Absolute end of the answer in [first, last): one past the first stop id, or `last`.
inline std::int32_t end_of_answer(const batch& b, std::int32_t s, std::int32_t first,
                                  std::int32_t last, const std::vector<std::int32_t>& stop_ids,
                                  bool* stopped = nullptr) {
  const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
  const std::int32_t* hit =
      std::find_first_of(canvas + first, canvas + last, stop_ids.begin(), stop_ids.end());
  if (stopped) *stopped = hit != canvas + last;
  return hit == canvas + last ? last : static_cast<std::int32_t>(hit - canvas) + 1;
}

}  // namespace unmask
