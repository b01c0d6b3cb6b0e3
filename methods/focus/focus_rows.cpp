// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/focus/focus_rows.h"

#include <cmath>

namespace unmask {

std::int32_t focus_budget(float average, float alpha) {
  return std::max(1, static_cast<std::int32_t>(std::ceil(std::max(average, 1.0F) * alpha)));
}

void focus_state::start(const batch& b, std::int32_t s) {
  delayed_state::start(b, s);
  records.at(s) = {};
  if (focus.placeholder_integrity) return;
  if (!processed) {
    const std::int64_t places = b.capacity(), all = places * b.max_length();
    processed = b.backend().allocate(dtype::u8, {places, b.max_length()});
    key_begin = b.backend().allocate(dtype::i32, {places + 1});
    key_slot = b.backend().allocate(dtype::i32, {all});
    key_sequence = b.backend().allocate(dtype::i32, {all});
  }
  // The windows delayed_state::start left behind cover place s and nothing else.
  b.backend().fill_flags(b.capacity(), first.data(), last.data(), 0, processed);
}

focus_state::record& focus_state::enter(std::int32_t s, std::int32_t block) {
  record& r = records.at(s);
  if (r.block != block) {
    r.block = block;
    if (focus.scope != average_scope::request) r.decided = r.steps = 0;
  }
  return r;
}

std::int32_t focus_state::budget_of(const record& r) const {
  if (focus.selection != focus_selection::dynamic) return focus.k;
  if (r.steps > 0) return focus_budget(r.average(), focus.alpha);
  if (focus.scope == average_scope::block_carry && r.budget > 0) return r.budget;
  return focus.initial_k > 0 ? focus.initial_k : focus_budget(1, focus.alpha);
}

// The prefill's own denoising step is not counted.
void focus_state::observe(std::int32_t s, const sequence_step& step, std::int32_t committed) {
  if (step.what == phase::prefill) return;
  record& r = records.at(s);
  if (committed == 0 && !focus.count_empty) return;
  r.decided += committed;
  ++r.steps;
  r.budget = budget_of(r);
}

void focus_rows::prepare(const batch& b, std::int64_t rows) {
  if (begin_) return;
  const ops& run = b.backend();
  const std::int64_t places = b.capacity();
  for (tensor* t : {&position_, &row_, &list_, &list_sequence_}) {
    *t = run.allocate(dtype::i32, {rows});
  }
  for (tensor* t : {&layer0_, &layer1_, &delta_, &score_, &all_}) {
    *t = run.allocate(dtype::f32, {rows, 1});
  }
  for (tensor* t : {&begin_, &list_begin_}) *t = run.allocate(dtype::i32, {places + 1});
  for (tensor* t : {&target_, &processed_end_}) *t = run.allocate(dtype::i32, {places});
  accept_ = run.allocate(dtype::u8, {rows});
  views_.resize(static_cast<std::size_t>(places));
}

// Which sequences evict: those with more masked positions than their budget; and their masked rows.
void focus_rows::find(const batch& b, const step_plan& plan, const row_lists& rows) {
  std::int32_t* target = target_.as<std::int32_t>();
  state_->windows(plan, [&](const sequence_step& step, std::int32_t s) {
    eviction_view& view = views_[static_cast<std::size_t>(s)];
    view = {};
    target[s] = 0;
    if (step.what == phase::prefill || step.again) return false;
    const focus_state::record& r = state_->enter(s, step.first);
    const std::int32_t n = b.count(s, step.first, step.last, state_masked);
    view.budget = state_->budget_of(r);
    view.average = r.steps > 0 ? double{r.average()} : 0.0;
    view.evicting = n > view.budget;
    if (view.evicting) target[s] = view.budget;
    return view.evicting;
  });
  count_ = b.backend().find_candidates(
      rows.set(b.capacity()), b.state(), state_masked, state_->first.data(), state_->last.data(), 0,
      begin_.as<std::int32_t>(), position_.as<std::int32_t>(), row_.as<std::int32_t>());
}

// I_j of the masked rows (FOCUS eq. 2); with whole_block over every row of the sequence, of
// which the masked ones are then picked.
void focus_rows::importance(const batch& b, const row_lists& rows, const tensor_view& q,
                            const tensor_view& k, const tensor& out) {
  const ops& run = b.backend();
  const float scale = 1.0F / std::sqrt(static_cast<float>(b.model().head_dim));
  if (!state_->focus.whole_block) {
    run.importance(b.capacity(), begin_.as<std::int32_t>(), row_.as<std::int32_t>(), q, k, scale,
                   out.as<float>());
  } else {
    const std::int32_t* begin = rows.begin.as<std::int32_t>();
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      const bool evicting = views_[static_cast<std::size_t>(s)].evicting;
      state_->first[static_cast<std::size_t>(s)] = evicting ? begin[s] : 0;
      state_->last[static_cast<std::size_t>(s)] = evicting ? begin[s + 1] : 0;
    }
    const std::int32_t n = run.compact(b.capacity(), {}, 0, state_->first.data(),
                                       state_->last.data(), list_begin_.as<std::int32_t>(),
                                       list_.as<std::int32_t>(), list_sequence_.as<std::int32_t>());
    run.importance(b.capacity(), list_begin_.as<std::int32_t>(), list_.as<std::int32_t>(), q, k,
                   scale, score_.as<float>());
    run.scatter_rows(score_.view().first(n), list_.as<std::int32_t>(), all_);
    run.gather_rows(all_, row_.as<std::int32_t>(), out.view().first(count_));
  }
  if (state_->focus.round_importance) run.round_bf16(count_, out.as<float>());
}

// What the rows are ranked by: layer 1 minus layer 0, or layer 1 alone; its negative for bottom.
void focus_rows::score(const batch& b) {
  const ops& run = b.backend();
  const focus_settings& f = state_->focus;
  run.combine_scores(count_, layer1_.as<float>(), 1, f.layer1_score ? nullptr : layer0_.as<float>(),
                     -1, delta_.as<float>());
  if (f.selection == focus_selection::random) {
    run.uniform_scores(masked(b.capacity()), {b.seeds(), b.steps()}, score_.as<float>());
  } else {
    const float sign = f.selection == focus_selection::bottom ? -1.0F : 1.0F;
    run.combine_scores(count_, delta_.as<float>(), sign, nullptr, 0, score_.as<float>());
  }
}

bool focus_rows::narrow(const batch& b, const step_plan& plan, std::int32_t layer,
                        const tensor_view& q, const tensor_view& k, row_lists& rows, tensor& kept) {
  if (layer > 1) return false;
  const std::int32_t before = rows.rows;
  if (layer == 0) {
    prepare(b, rows.position.view().rows());
    find(b, plan, rows);
    if (count_ > 0) importance(b, rows, q, k, layer0_);
    return false;
  }
  if (count_ > 0) {
    const focus_settings& f = state_->focus;
    importance(b, rows, q, k, layer1_);
    score(b);
    for (std::int32_t s = 0; s < b.capacity(); ++s) {
      processed_end_.as<std::int32_t>()[s] = state_->records.at(s).processed_end;
    }
    retain_params p;
    p.target = target_.as<std::int32_t>();
    p.processed = processed_end_.as<std::int32_t>();
    p.by_deviation = f.selection == focus_selection::dynamic;
    p.add_mean = f.add_mean;
    p.ddof = f.ddof;
    p.keep_predecessors = f.ar_context;
    p.adjacent_rows = f.adjacent_rows;
    p.keep_unprocessed = f.placeholder_integrity;
    b.backend().retain(masked(b.capacity()), score_.as<float>(), p, accept_.as<std::uint8_t>());
    rows.rows = b.backend().drop_rows(rows.set(b.capacity()), masked(b.capacity()),
                                      accept_.as<std::uint8_t>(), rows.begin.as<std::int32_t>(),
                                      rows.sequence.as<std::int32_t>(),
                                      rows.position.as<std::int32_t>(), kept.as<std::int32_t>());
  }
  finish(b, plan, rows);
  return rows.rows < before;
}

// Positions that reach the last layer: the range the later keys end at, and how far the block's
// K/V now goes in every layer.
void focus_rows::finish(const batch& b, const step_plan& plan, const row_lists& rows) {
  focus_state& state = *state_;
  const row_set set = rows.set(b.capacity());
  b.backend().row_extent(set, state.extent_out.as<std::int32_t>());
  const std::int32_t* end = state.extent_out.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active || step.what == phase::prefill || step.again) continue;
    std::int32_t& processed_end = state.records.at(s).processed_end;
    processed_end = std::max(processed_end, end[s]);
    eviction_view& view = views_[static_cast<std::size_t>(s)];
    view.processed_end = processed_end;
    if (!view.evicting) continue;
    const std::int32_t* begin = begin_.as<std::int32_t>();
    view.score = delta_.as<float>() + begin[s];
    view.count = begin[s + 1] - begin[s];
  }
  if (state.focus.placeholder_integrity) return;
  b.backend().scatter_flags(set, nullptr, 1, state.processed);
  std::fill(state.first.begin(), state.first.end(), 0);
  b.backend().compact(b.capacity(), state.processed, 1, state.first.data(), end,
                      state.key_begin.as<std::int32_t>(), state.key_slot.as<std::int32_t>(),
                      state.key_sequence.as<std::int32_t>());
}

eviction_view focus_rows::eviction(std::int32_t s) const {
  return views_.empty() ? eviction_view{} : views_[static_cast<std::size_t>(s)];
}

key_set focus_keys::select(const batch& b, const step_plan& plan, std::int32_t layer,
                           const tensor_view& q, const paged_kv& cache,
                           const std::int32_t* kv_length) {
  key_set keys = delayed_keys::select(b, plan, layer, q, cache, kv_length);
  if (layer == 1 && state_->focus.layer1_processed) {
    keys.kv_length = state_->extent_in.as<std::int32_t>();
  }
  // Layers 0 and 1 have fresh K/V of everything computed; the later ones only of what stayed.
  if (layer > 1 && !state_->focus.placeholder_integrity) {
    keys.key_begin = state_->key_begin.as<std::int32_t>();
    keys.key_slot = state_->key_slot.as<std::int32_t>();
  }
  return keys;
}

}  // namespace unmask
