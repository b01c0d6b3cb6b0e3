// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/parts/active_suffix.h"

#include <algorithm>
#include <utility>

namespace unmask {

void active_rows::select(const batch& b, const step_choice& plan, row_lists& rows) {
  auto* begin = rows.begin.as<std::int32_t>();
  auto* position = rows.position.as<std::int32_t>();
  auto* sequence = rows.sequence.as<std::int32_t>();
  std::int32_t n = 0;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    begin[s] = n;
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const active_suffix& active = active_->at(s);
    const std::int32_t last = std::min(step.last, active.block_last);
    for (std::int32_t p = step.first; p < last; ++p) position[n++] = p;
    if (step.last > active.block_last) {
      std::ranges::copy(active.kept, position + n);
      n += static_cast<std::int32_t>(active.kept.size());
    }
    std::fill(sequence + begin[s], sequence + n, s);
  }
  begin[b.capacity()] = n;
  rows.rows = n;
}

bool compact_cache::prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache&) {
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  const std::int32_t* position = rows.position.as<std::int32_t>();
  std::int32_t* slot = rows.slot.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    std::int32_t behind = active_->at(s).block_last;
    for (std::int32_t r = begin[s]; r < begin[s + 1]; ++r) {
      slot[r] = position[r] < active_->at(s).block_last ? position[r] : behind++;
      rows.slots_differ = rows.slots_differ || slot[r] != position[r];
    }
  }
  return false;
}

std::function<std::vector<std::int32_t>(const step_choice&, std::int32_t, std::int32_t)> slots_of(
    std::shared_ptr<active_suffixes> active) {
  return [active = std::move(active)](const step_choice& plan, std::int32_t, std::int32_t s) {
    std::vector<std::int32_t> positions;
    if (!plan.of[static_cast<std::size_t>(s)].active) return positions;
    const active_suffix& of = active->at(s);
    for (std::int32_t p = 0; p < of.block_last; ++p) positions.push_back(p);
    positions.insert(positions.end(), of.kept.begin(), of.kept.end());
    return positions;
  };
}

}  // namespace unmask
