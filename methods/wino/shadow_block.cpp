// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/wino/shadow_block.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace unmask::wino {

void shadow_rows::select(const batch& b, const step_choice& plan, row_lists& rows) {
  auto *begin = rows.begin.as<std::int32_t>(), *position = rows.position.as<std::int32_t>(),
       *sequence = rows.sequence.as<std::int32_t>(), *token = rows.views.token.as<std::int32_t>(),
       *view_begin = rows.views.begin.as<std::int32_t>(),
       *view_sequence = rows.views.sequence.as<std::int32_t>();
  auto* judges = rows.views.judges.as<std::uint8_t>();
  std::int32_t n = 0, views = 0;
  const auto add = [&](std::int32_t s, std::int32_t first, std::int32_t last, std::int32_t own,
                       std::uint8_t state) {
    const std::int32_t count = last - first;
    if (n + count > rows.position.view().rows()) {
      throw std::logic_error("shadow_rows: more rows than the lists hold");
    }
    std::iota(position + n, position + n + count, first);
    std::fill_n(sequence + n, count, s);
    std::fill_n(token + n, count, own);
    std::fill_n(judges + n, count, one_state(state));
    n += count;
  };
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    begin[s] = n;
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const std::int32_t block = step.block_last - step.block_first;
    std::fill_n(view_sequence + views, 1 + block, s);
    view_begin[views++] = n;
    add(s, step.first, step.last, -1, state_masked);
    std::iota(view_begin + views, view_begin + views + block, n);
    views += block;
    add(s, step.block_first, step.block_last, b.model().mask_id, state_decoded);
  }
  begin[b.capacity()] = n;
  rows.rows = n;
  rows.views.count = views;
}

void shadow_keys::see(const batch& b, const step_choice& plan, row_lists& rows) const {
  (void)b;
  auto* range = rows.views.range.as<std::int32_t>();
  const auto add = [&](std::int32_t first, std::int32_t last) {
    *range++ = first;
    *range++ = last;
  };
  for (const sequence_step& step : plan.of) {
    if (!step.active) continue;
    add(step.first, step.last);
    add(0, 0);
    add(0, 0);
    for (std::int32_t p = step.block_first; p < step.block_last; ++p) {
      add(step.first, p);
      add(p + 1, step.last);
      add(step.last, step.slots);
    }
  }
}

bool shadow_slots::prepare(const batch& b, const step_choice& plan, row_lists& rows, kv_cache&) {
  const auto *begin = rows.begin.as<std::int32_t>(), *position = rows.position.as<std::int32_t>();
  auto* slot = rows.slot.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    const std::int32_t shadow = begin[s + 1] - (step.block_last - step.block_first);
    if (!step.active) continue;
    std::copy(position + begin[s], position + shadow, slot + begin[s]);
    std::iota(slot + shadow, slot + begin[s + 1], step.last);
  }
  rows.slots_differ = true;
  return false;
}

}  // namespace unmask::wino
