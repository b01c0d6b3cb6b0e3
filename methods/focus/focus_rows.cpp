// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/focus/focus_rows.h"
#include "kernels/rows.h"

namespace unmask {

void focus_state::start(const batch& b, std::int32_t s) {
  delayed_state::start(b, s);
  budgets->start(s);
  if (!lists_keys()) return;
  if (!processed) {
    const std::int64_t places = b.capacity(), all = places * b.max_length();
    processed = b.backend().allocate(dtype::u8, {places, b.max_length()}, memory_use::host_visible);
    shown = b.backend().allocate(dtype::u8, {places, b.max_length()}, memory_use::host_visible);
    key_begin = b.backend().allocate(dtype::i32, {places + 1}, memory_use::host_visible);
    key_slot = b.backend().allocate(dtype::i32, {all}, memory_use::host_visible);
    key_sequence = b.backend().allocate(dtype::i32, {all}, memory_use::host_visible);
  }
  zero.assign(static_cast<std::size_t>(b.capacity()), 0);
  clear_started(b, processed);
}

// Of the block in work: K/V of masks are placeholders up to the last retained row, those of decided tokens
// are seen wherever they lie.
// The host has waited for the rows, so that it marks them and lists the slots itself.
void focus_state::show_stored(const batch& b, const step_choice& plan, const row_lists& rows) {
  for (std::int32_t r = 0; r < rows.rows; ++r) {
    const std::int32_t s = rows.sequence.as<std::int32_t>()[r];
    processed.row<std::uint8_t>(s)[rows.position.as<std::int32_t>()[r]] = 1;
  }
  const std::int32_t* extent = extent_out.as<std::int32_t>();
  auto *begin = key_begin.as<std::int32_t>(), *slot = key_slot.as<std::int32_t>();
  std::int32_t n = begin[0] = 0;
  for (std::int32_t s = 0; s < b.capacity(); ++s, begin[s] = n) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const std::uint8_t* of = b.state().row<std::uint8_t>(s);
    const std::uint8_t* there = processed.row<std::uint8_t>(s);
    auto* seen = shown.row<std::uint8_t>(s);
    for (std::int32_t p = step.first; p < step.last; ++p) {
      seen[p] = there[p] != 0 && (p < extent[s] || of[p] != state_masked) ? 1 : 0;
    }
    for (std::int32_t p = 0; p < step.kv_length; ++p) {
      if (seen[p] != 0) slot[n++] = p;
    }
  }
}

bool focus_rows::narrow(const batch& b, const step_choice& plan, std::int32_t layer,
                        const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
  const bool dropped = eviction_.narrow(b, plan, layer, q, k, rows, kept);
  if (layer == 1) finish(b, plan, rows, dropped);
  return dropped;
}

// Positions that reach the last layer: the range the later keys end at, and how far the block's
// K/V now goes in every layer.
void focus_rows::finish(const batch& b, const step_choice& plan, const row_lists& rows,
                        bool dropped) {
  focus_state& state = *state_;
  const backend& backend = b.backend();
  std::int32_t* extent = state.extent_out.as<std::int32_t>();
  if (dropped) write_extents(rows, b.capacity(), extent);  // drop_rows() has waited for layer 0
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    const bool prefill = step.active && step.what == forward_kind::prefill && !step.recompute;
    if (!decodes_block(step) && !(prefill && state.counts_prefill)) continue;
    std::int32_t& end = state.budgets->records.at(s).processed_end;
    end = std::max(end, extent[s]);
  }
  if (!state.lists_keys()) return;
  if (state.settings.stored_keys) {
    state.show_stored(b, plan, rows);
    return;
  }
  backend.run(op::scatter_flags{rows.set(b.capacity()), nullptr, 1, state.processed});
  backend.run(op::compact{b.capacity(), state.processed, 1, state.zero.data(), extent,
                          state.key_begin.as<std::int32_t>(), state.key_slot.as<std::int32_t>(),
                          state.key_sequence.as<std::int32_t>()});
}

layer_keys focus_keys::select(const batch& b, const step_choice& plan, std::int32_t layer,
                              const std::int32_t* kv_length) const {
  layer_keys keys = delayed_keys::select(b, plan, layer, kv_length);
  if (layer == 1 && state_->layer1_processed && !state_->settings.stored_keys) {
    keys.set.kv_length = state_->extent_in.as<std::int32_t>();
  }
  // Layers 0 and 1 have fresh K/V of everything computed; the later ones only of what stayed.
  if (layer > 1 && state_->lists_keys()) {
    keys.set.key_begin = state_->key_begin.as<std::int32_t>();
    keys.set.key_slot = state_->key_slot.as<std::int32_t>();
  }
  return keys;
}

}  // namespace unmask
