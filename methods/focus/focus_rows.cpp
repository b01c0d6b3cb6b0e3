// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/focus/focus_rows.h"

namespace unmask {

void focus_state::start(const batch& b, std::int32_t s) {
  delayed_state::start(b, s);
  budgets->start(s);
  if (budgets->settings.placeholder_integrity) return;
  if (!processed) {
    const std::int64_t places = b.capacity(), all = places * b.max_length();
    processed = b.backend().allocate(dtype::u8, {places, b.max_length()});
    key_begin = b.backend().allocate(dtype::i32, {places + 1}, memory_use::exchanged);
    key_slot = b.backend().allocate(dtype::i32, {all});
    key_sequence = b.backend().allocate(dtype::i32, {all});
  }
  // The windows delayed_state::start left behind cover place s and nothing else.
  b.backend().fill_flags(b.capacity(), first.data(), last.data(), 0, processed);
}

bool focus_rows::narrow(const batch& b, const step_plan& plan, std::int32_t layer,
                        const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
  const bool dropped = eviction_.narrow(b, plan, layer, q, k, rows, kept);
  if (layer == 1) finish(b, plan, rows);
  return dropped;
}

// Positions that reach the last layer: the range the later keys end at, and how far the block's
// K/V now goes in every layer.
void focus_rows::finish(const batch& b, const step_plan& plan, const row_lists& rows) {
  focus_state& state = *state_;
  const row_set set = rows.set(b.capacity());
  // From the lists that the host has waited for. Where nothing was dropped it has not waited, and
  // layer 0 may still read the extents: then they stay as they are.
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  const std::int32_t* position = rows.position.as<std::int32_t>();
  std::int32_t* extent = state.extent_out.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    const std::int32_t end = begin[s + 1] > begin[s] ? position[begin[s + 1] - 1] + 1 : 0;
    if (extent[s] != end) extent[s] = end;
    if (!step.active || step.what == phase::prefill || step.again) continue;
    std::int32_t& processed_end = state.budgets->records.at(s).processed_end;
    processed_end = std::max(processed_end, end);
    eviction_.note_processed(s, processed_end);
  }
  if (state.budgets->settings.placeholder_integrity) return;
  b.backend().scatter_flags(set, nullptr, 1, state.processed);
  std::fill(state.first.begin(), state.first.end(), 0);
  b.backend().compact(b.capacity(), state.processed, 1, state.first.data(),
                      state.extent_out.as<std::int32_t>(), state.key_begin.as<std::int32_t>(),
                      state.key_slot.as<std::int32_t>(), state.key_sequence.as<std::int32_t>());
}

key_set focus_keys::select(const batch& b, const step_plan& plan, std::int32_t layer,
                           const tensor_view& q, const paged_kv& cache,
                           const std::int32_t* kv_length) {
  key_set keys = delayed_keys::select(b, plan, layer, q, cache, kv_length);
  if (layer == 1 && state_->layer1_processed) {
    keys.kv_length = state_->extent_in.as<std::int32_t>();
  }
  // Layers 0 and 1 have fresh K/V of everything computed; the later ones only of what stayed.
  if (layer > 1 && !state_->budgets->settings.placeholder_integrity) {
    keys.key_begin = state_->key_begin.as<std::int32_t>();
    keys.key_slot = state_->key_slot.as<std::int32_t>();
  }
  return keys;
}

}  // namespace unmask
