// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/optimus/optimus_policies.h"
#include "kernels/decisions.h"
#include "kernels/rows.h"

#include <algorithm>
#include <chrono>

namespace unmask {

void optimus_state::prepare(const batch& b) {
  if (kv_end) return;
  const backend& backend = b.backend();
  const std::int64_t places = b.capacity();
  kv_end = backend.allocate(dtype::i32, {places}, memory_use::host_visible);
  requests.resize(static_cast<std::size_t>(places));
  observations.resize(static_cast<std::size_t>(places));
  if (!lists()) return;
  visible = backend.allocate(dtype::u8, {places, b.max_length()}, memory_use::host_visible);
  key_begin = backend.allocate(dtype::i32, {places + 1}, memory_use::host_visible);
  for (tensor* t : {&key_slot, &key_sequence}) {
    *t = backend.allocate(dtype::i32, {places * b.max_length()}, memory_use::host_visible);
  }
}

void optimus_state::start(const batch& b, std::int32_t s) {
  prepare(b);
  if (elastic) elastic->forget(s);
  if (!lists()) return;
  shared_vector<std::int32_t> first(static_cast<std::size_t>(b.capacity()), 0), last = first;
  last[static_cast<std::size_t>(s)] = b.max_length();
  b.backend().run(op::fill_flags{b.capacity(), first.data(), last.data(), 0, visible});
}

std::int32_t optimus_pace::canvas_length(const model_config&,
                                         const sequence_request& request) const {
  return request_positions("optimus", request, state_->settings.chunk.block);
}

namespace {

// A block takes at least two forwards: one that decides the last of it, one that settles it. Rows
// of the next block in the same forward shorten that, and reach one block further. Rows of a block
// attend to the whole block, so the pieces of a prompt end where blocks end.
// The elastic scheduler chooses one chunk for all that run, by what their steps showed.
pace_shape shape_of(const optimus_state& state) {
  const optimus_settings& set = state.settings;
  const std::int32_t block = set.chunk.block;
  const bool looks_ahead = set.out_block || set.chunk.fusion != fusion_mode::off;
  pace_shape shape{.block = block,
                   .ahead = looks_ahead ? 2 * block : block,
                   .commits = !looks_ahead,
                   .prefill_piece = block};
  shape.by_load = state.elastic.has_value();
  return shape;
}

}  // namespace

optimus_pace::optimus_pace(std::shared_ptr<optimus_state> state)
    : pace_policy(shape_of(*state)), state_(std::move(state)) {}

std::int32_t optimus_pace::prefill_end(const batch& b, std::int32_t s) const {
  return state_->settings.prefill_emits
             ? round_up(b.at(s).prompt_length, state_->settings.chunk.block)
             : progress_.at(s).history;
}

std::int32_t optimus_pace::prefill_rows(const batch& b, std::int32_t s) const {
  const progress& p = progress_.at(s);
  return p.prefilled ? 0 : prefill_piece(prefill_end(b, s) - p.entered);
}

void optimus_pace::start(batch& b, std::int32_t s) {
  state_->start(b, s);
  progress& p = progress_.at(s);
  p = {};
  if (state_->settings.prefill_emits) return;
  p.history = b.at(s).prompt_length / state_->settings.chunk.block * state_->settings.chunk.block;
  p.prefilled = p.history == 0;
}

void optimus_pace::begin(const batch& b, const schedule_action* parts) {
  optimus_state& state = *state_;
  const optimus_settings& set = state.settings;
  if (state.requests.empty()) return;  // nobody was ever admitted
  prefilling_ = false;
  running_.clear();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    state.requests[static_cast<std::size_t>(s)] = {};
    if (!b.occupied(s) || (parts && parts[s] == schedule_action::out)) continue;
    if (parts && parts[s] == schedule_action::recompute) continue;
    if (b.at(s).finished) continue;
    if (progress_.at(s).prefilled) {
      running_.push_back(s);
    } else {
      prefilling_ = true;
    }
  }
  state.choice = {state.elastic ? set.chunk.block : set.size, !state.elastic && set.out_block};
  if (state.elastic && !running_.empty()) state.choice = state.elastic->choose(running_);
  choose_chunk(state.choice.size);
  // A place that waits in a held batch computes the rows its next forward would take. They settle
  // nothing, and that forward computes them again before it reads them.
  for (std::int32_t s = 0; parts && s < b.capacity(); ++s) {
    if (parts[s] != schedule_action::recompute || !b.occupied(s)) continue;
    const std::int32_t first = progress_.at(s).history, last = first + set.chunk.block;
    state.requests[static_cast<std::size_t>(s)] = {first, last, last, state.choice.size, false};
  }
  if (set.overhead_seconds <= 0) return;
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(set.overhead_seconds);
  while (std::chrono::steady_clock::now() < until) {
  }
}

sequence_step optimus_pace::plan(const batch& b, std::int32_t s) {
  optimus_state& state = *state_;
  const optimus_settings& set = state.settings;
  const sequence& q = b.at(s);
  const progress& p = progress_.at(s);
  const std::int32_t block = set.chunk.block;
  chunk_request& r = state.requests[static_cast<std::size_t>(s)];
  sequence_step step;
  if (p.prefilled && prefilling_ && set.prefill_apart) return step;
  step.active = true;
  r.limit = q.length;
  r.size = state.choice.size;
  if (!p.prefilled) {
    step.what = forward_kind::prefill;
    const std::int32_t end = prefill_end(b, s);
    step.first = p.entered;
    step.last = p.entered + prefill_rows(b, s);
    step.candidate_first = step.last == end ? std::min(q.prompt_length, end) : step.last;
    step.candidate_last = step.last;
    r.first = step.first;
    r.last = step.last;
    r.whole = true;
  } else {
    step.first = p.history;
    step.last = p.history + block;
    const bool clean = b.count(s, step.first, step.last, state_masked) == 0;
    r.first = step.first;
    r.last = step.last;
    state.observations[static_cast<std::size_t>(s)].open =
        block - b.count(s, step.first, step.last, state_cached);
    r.whole = p.refresh || (set.stale_suffix && !p.opened);
    const bool fuses = clean && set.chunk.fusion != fusion_mode::off;
    if ((state.choice.out_block || fuses) && !p.refresh) {
      step.last = std::min(step.last + block, q.length);
    }
    if (state.choice.out_block && !p.refresh) r.last = step.last;
    const bool decides = !clean || step.last > step.first + block;
    step.what = decides ? forward_kind::denoise : forward_kind::commit;
    step.candidate_first = step.first;
    step.candidate_last = decides ? step.last : step.first;
  }
  step.kv_length = step.last;
  return step;
}

void optimus_pace::observe(batch& b, std::int32_t s, const sequence_step& step,
                           const step_outcome& outcome) {
  optimus_state& state = *state_;
  progress& p = progress_.at(s);
  const bool prefill = step.what == forward_kind::prefill;
  step_observation& seen = state.observations[static_cast<std::size_t>(s)];
  if (state.elastic && (!prefill || !seen.passed.empty())) {
    const chunk_choice made =
        prefill ? chunk_choice{state.settings.chunk.block, false} : state.choice;
    seen.size = made.size;
    if (!prefill) state.elastic->record(made, outcome.taken);
    state.elastic->observe(s, made, seen, outcome.taken);
  }
  seen.passed.clear();
  seen.slot.clear();
  seen.open = 0;
  p.opened = true;
  p.refresh = false;
  if (prefill) {
    p.entered = step.last;
    if (step.last < prefill_end(b, s)) return;
    p.prefilled = true;
    if (!state.settings.prefill_emits) {
      b.set_state(s, 0, p.history, state_cached);
      p.opened = false;  // the block behind the prefilled ones
      return;
    }
  }
  advance(b, s);
}

// Stop rules on complete blocks, and the step to the next block once everything is cached. A
// prefill passes all blocks of the prompt at once.
void optimus_pace::advance(batch& b, std::int32_t s) {
  const optimus_settings& set = state_->settings;
  sequence& q = b.at(s);
  progress& p = progress_.at(s);
  const std::int32_t block = set.chunk.block;
  for (;;) {
    const std::int32_t end = p.history + block;
    const bool clean = b.count(s, p.history, end, state_masked) == 0;
    if (clean && !p.checked && end > q.prompt_length) {
      p.checked = true;
      const std::int32_t answer_end = engine_answer_end(b, s, p.history, set.block);
      if (answer_end > 0) {
        q.finished = true;
        q.output_end = answer_end;
        return;
      }
      if (set.final_refresh) {
        b.set_state(s, p.history, end, state_decoded);
        p.refresh = true;
        return;
      }
    }
    std::int32_t answer_end = 0;
    if (!clean && set.stop_at_prefix && stops_at_prefix(b, s, p, &answer_end)) {
      q.finished = true;
      q.output_end = answer_end;
      return;
    }
    if (b.count(s, p.history, end, state_cached) < block) return;
    p.history = end;
    p.checked = p.opened = false;
    if (end >= q.length) return;
  }
}

// A stop id with no mask left of it.
bool optimus_pace::stops_at_prefix(const batch& b, std::int32_t s, const progress& p,
                                   std::int32_t* answer_end) const {
  const block_settings& set = state_->settings.block;
  const sequence& q = b.at(s);
  if (!set.use_stop_ids || (!set.stop_in_prompt_block && p.history < q.prompt_length)) return false;
  const std::uint8_t* of = b.state().row<std::uint8_t>(s);
  const auto mask = static_cast<std::int32_t>(
      std::find(of + p.history, of + p.history + set.block_length, state_masked) - of);
  const std::int32_t last = std::min(mask, q.prompt_length + q.request.gen_length);
  const std::int32_t first = std::max(p.history, q.prompt_length);
  bool stopped = false;
  if (first < last) *answer_end = end_of_answer(b, s, first, last, set.stop_ids, &stopped);
  return stopped;
}

void optimus_rows::select(const batch& b, const step_choice& plan, row_lists& rows) {
  optimus_state& state = *state_;
  const backend& backend = b.backend();
  const std::int32_t block = state.settings.chunk.block;
  if (!builder_) {
    builder_.emplace(backend, state.settings.chunk);
    state.settles =
        backend.allocate(dtype::u8, {rows.position.view().rows()}, memory_use::host_visible);
    zero_.assign(static_cast<std::size_t>(b.capacity()), 0);
  }
  rows.rows = builder_->build(b.state(), state.requests,
                              {rows.begin.as<std::int32_t>(), rows.sequence.as<std::int32_t>(),
                               rows.position.as<std::int32_t>(), rows.slot.as<std::int32_t>(),
                               state.settles.as<std::uint8_t>()});
  rows.slots_differ = state.settings.chunk.compact_slots;
  state.rows = rows;
  // One past the last slot a row may see: settled K/V of the block lies at its front, that of the
  // chunk right behind it.
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const chunk_request& r = state.requests[static_cast<std::size_t>(s)];
    std::int32_t end = r.last;
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (step.recompute) {
      backend.run(op::fill_flags{1, begin + s, begin + s + 1, 0, state.settles});  // the rows of s
    }
    if (step.active && !r.whole && !state.settings.stale_suffix && !state.lists()) {
      const std::int32_t next = r.first + block, n = begin[s + 1] - begin[s];
      const std::int32_t cached = b.count(s, r.first, next, state_cached);
      const std::int32_t beyond = n - (block - cached);  // rows of the next block, under fusion
      end = beyond <= 0 ? r.first + cached + n
                        : next + b.count(s, next, r.last, state_cached) + beyond;
    }
    state.kv_end.as<std::int32_t>()[s] = end;
  }
  if (!state.lists()) return;
  backend.run(op::scatter_flags{rows.set(b.capacity()), nullptr, 1, state.visible});
  backend.run(op::compact{b.capacity(), state.visible, 1, zero_.data(),
                          state.kv_end.as<std::int32_t>(), state.key_begin.as<std::int32_t>(),
                          state.key_slot.as<std::int32_t>(),
                          state.key_sequence.as<std::int32_t>()});
}

layer_keys optimus_keys::select(const batch& b, const step_choice& plan, std::int32_t layer,
                                const std::int32_t*) const {
  const optimus_state& state = *state_;
  layer_keys keys = key_policy::select(b, plan, layer, state.kv_end.as<std::int32_t>());
  if (!state.lists()) return keys;
  keys.set.key_begin = state.key_begin.as<std::int32_t>();
  keys.set.key_slot = state.key_slot.as<std::int32_t>();
  const bool prefill = std::any_of(plan.of.begin(), plan.of.end(), [](const sequence_step& step) {
    return step.active && step.what == forward_kind::prefill;
  });
  if (state.settings.full_mask && !prefill) keys.set.mask = mask_kind::full;
  return keys;
}

void optimus_cache::settle(batch& b, const step_choice&) {
  const optimus_state& state = *state_;
  const row_set rows = state.rows.set(b.capacity());
  const std::uint8_t* settles = state.settles.as<std::uint8_t>();
  b.backend().run(op::scatter_flags{rows, settles, state_cached, b.state()});
  if (!state.lists()) return;
  b.backend().run(op::scatter_flags{rows, nullptr, 0, state.visible});
  b.backend().run(op::scatter_flags{rows, settles, 1, state.visible});
}

void optimus_unmask::decide(const batch& b, const step_choice& plan, candidate_lists& c) {
  block_unmask::decide(b, plan, c);
  if (!state_->elastic) return;
  if (by_entropy()) {  // a bound on a sum has no candidates that pass beside those it takes
    b.backend().synchronize();
    note(b, plan, c, c.accept.as<std::uint8_t>());
    return;
  }
  if (!passed_) {
    passed_ = b.backend().allocate(dtype::u8, {c.accept.view().rows()}, memory_use::host_visible);
  }
  std::uint8_t* passed = passed_.as<std::uint8_t>();
  b.backend().run(op::accept_threshold{c.set(b.capacity()), c.probability.as<float>(),
                                       settings().threshold, settings().strict, false, passed});
  b.backend().synchronize();
  note(b, plan, c, passed);
}

void optimus_unmask::learn(const batch& b, const step_choice& plan, const candidate_lists& c) {
  if (!state_->elastic) return;
  b.backend().synchronize();
  note(b, plan, c, c.accept.as<std::uint8_t>());
}

void optimus_unmask::note(const batch& b, const step_choice& plan, const candidate_lists& c,
                          const std::uint8_t* passed) {
  optimus_state& state = *state_;
  const std::int32_t* begin = c.begin.as<std::int32_t>();
  const std::int32_t* row_begin = state.rows.begin.as<std::int32_t>();
  const std::int32_t* row_position = state.rows.position.as<std::int32_t>();
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    step_observation& seen = state.observations[static_cast<std::size_t>(s)];
    if (!step.active || step.recompute) continue;
    seen.passed.assign(passed + begin[s], passed + begin[s + 1]);
    seen.slot.clear();  // decide() may have noted its own choice before somebody else's
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      // The place of its own row; with shifted logits c.row is the row before.
      const std::int32_t position = c.position.as<std::int32_t>()[i];
      seen.slot.push_back(static_cast<std::int32_t>(
          std::count_if(row_position + row_begin[s], row_position + row_begin[s + 1],
                        [position](std::int32_t p) { return p < position; })));
    }
    seen.complete = b.count(s, step.first, step.last, state_masked) == begin[s + 1] - begin[s];
  }
}

}  // namespace unmask
