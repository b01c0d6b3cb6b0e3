// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Policies that several methods share.
#pragma once

#include <algorithm>
#include <vector>

#include "harness/decode/policies.h"
#include "kernels/rows.h"
#include "kernels/shared_vector.h"

namespace unmask {

// Keeps no KV after a forward pass: all layers share the scratch of one.
class no_cache final : public cache_policy {
 public:
  kv_storage storage(std::int32_t, std::int32_t length) const override { return {0, length}; }
};

// Every forward pass stores the KV of its rows; later passes see it as history.
class append_cache : public cache_policy {
 public:
  // keeps_decided: see cache_traits.
  explicit append_cache(bool keeps_decided = false)
      : cache_policy({.keeps_decided = keeps_decided}) {}
  kv_storage storage(std::int32_t, std::int32_t length) const override { return {length, 0}; }
};

// Chooses rows position by position: `mark` sets compute[p] for the positions of [first, last) that
// this forward pass computes.
class flagged_rows : public row_policy {
 public:
  void select(const batch& b, const step_choice& plan, row_lists& rows) override {
    if (!flags_) {
      flags_ =
          b.backend().allocate(dtype::u8, {b.capacity(), b.max_length()}, memory_use::host_visible);
      first_.resize(plan.of.size());
      last_.resize(plan.of.size());
    }
    for (std::size_t s = 0; s < plan.of.size(); ++s) {
      const sequence_step& step = plan.of[s];
      first_[s] = step.active ? step.first : 0;
      last_[s] = step.active ? step.last : 0;
      if (!step.active) continue;
      const auto place = static_cast<std::int32_t>(s);
      mark(b, place, step, flags_.row<std::uint8_t>(place));
    }
    rows.rows = b.backend().run(op::compact{
        b.capacity(), flags_, 1, first_.data(), last_.data(), rows.begin.as<std::int32_t>(),
        rows.position.as<std::int32_t>(), rows.sequence.as<std::int32_t>()});
  }

 protected:
  virtual void mark(const batch& b, std::int32_t s, const sequence_step& step,
                    std::uint8_t* compute) = 0;

 private:
  tensor flags_;
  shared_vector<std::int32_t> first_, last_;
};

// One record of a policy for each batch slot; grows with the batch.
template <class T>
class per_sequence {
 public:
  T& at(std::int32_t s) {
    if (static_cast<std::size_t>(s) >= items_.size())
      items_.resize(static_cast<std::size_t>(s) + 1);
    return items_[static_cast<std::size_t>(s)];
  }
  // Returns the item of a sequence that was started.
  const T& at(std::int32_t s) const { return items_[static_cast<std::size_t>(s)]; }

 private:
  std::vector<T> items_;
};

// Returns the end of the answer in [first, last) as a position of the canvas: one past the first
// stop id, or `last`.
inline std::int32_t end_of_answer(const batch& b, std::int32_t s, std::int32_t first,
                                  std::int32_t last, const std::vector<std::int32_t>& stop_ids,
                                  bool* stopped = nullptr) {
  const std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
  const std::int32_t* hit =
      std::find_first_of(canvas + first, canvas + last, stop_ids.begin(), stop_ids.end());
  if (stopped) *stopped = hit != canvas + last;
  return hit == canvas + last ? last : static_cast<std::int32_t>(hit - canvas) + 1;
}

// Returns whether the block [first, last) has a stop id. If it has one, `fill` sets every position
// behind the block to the first of the stop ids; no forward pass computes them and no counter has
// them. Call it in pace_policy::observe only: between two steps the canvas belongs to the host.
inline bool stop_behind_block(batch& b, std::int32_t s, std::int32_t first, std::int32_t last,
                              const std::vector<std::int32_t>& stop_ids, bool fill) {
  bool stopped = false;
  end_of_answer(b, s, first, last, stop_ids, &stopped);
  if (stopped && fill) {
    const std::int32_t length = b.at(s).length;
    std::int32_t* canvas = b.canvas().row<std::int32_t>(s);
    std::fill(canvas + last, canvas + length, stop_ids.front());
    b.set_state(s, last, length, state_decoded);
  }
  return stopped;
}

}  // namespace unmask
