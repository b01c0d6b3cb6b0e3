// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/ada_dlm/policies.h"

#include <cmath>
#include <limits>

#include "kernels/decisions.h"
#include "kernels/head.h"
#include "kernels/rows.h"

namespace unmask::ada_dlm {

std::int32_t boundary_rank(const settings& s, std::int32_t length, std::int32_t active,
                           std::int32_t sequence) {
  // Freezing clamps the rank to the last active token.
  if (s.boundary_last) return std::numeric_limits<std::int32_t>::max();
  if (s.k_tokens > 0) return s.k_tokens;
  std::int32_t basis = length;
  if (s.k_basis == "active") basis = active;
  if (s.k_basis == "sequence") basis = sequence;
  return std::max(1, static_cast<std::int32_t>(std::lround(s.k * basis)));
}

void shared_state::make_room(const batch& b, const settings& s) {
  if (history) return;
  const backend& backend = b.backend();
  const std::int64_t places = b.capacity(), length = b.max_length();
  remembers = s.decision.rule != freeze_rule::threshold;
  history = backend.allocate(dtype::f32, {places, length, remembers ? s.history : 1});
  if (s.traces && remembers) traces = backend.allocate(dtype::f32, {places, 2, s.history});
  flags = backend.allocate(dtype::u8, {places, length}, memory_use::host_visible);
  const auto n = static_cast<std::size_t>(places);
  scope_first.resize(n);
  scope_last.resize(n);
  rank.resize(n);
  whole.resize(n);
}

std::size_t shared_state::bytes() const {
  return remembers ? history.bytes() + traces.bytes() : 0;
}

void shared_state::forget(const batch& b, std::int32_t s) {
  b.backend().clear(history.row<float>(s),
                    static_cast<std::size_t>(history.view().columns()) * sizeof(float));
  scope_last[static_cast<std::size_t>(s)] = -1;
}

void shared_state::enter_scope(const batch& b, std::int32_t s, std::int32_t first,
                               std::int32_t last) {
  const auto place = static_cast<std::size_t>(s);
  if (traces && (scope_first[place] != first || scope_last[place] != last)) {
    b.backend().clear(traces.row<float>(s),
                      static_cast<std::size_t>(traces.view().columns()) * sizeof(float));
  }
  scope_first[place] = first;
  scope_last[place] = last;
}

std::int32_t pace::canvas_length(const model_config&, const sequence_request& request) const {
  return request_positions("ada_dlm", request);
}

void pace::start(batch& b, std::int32_t s) {
  shared_->make_room(b, settings_);
  const sequence& q = b.at(s);
  progress& p = progress_.at(s);
  p = {};
  p.scope_first = q.prompt_length;
  p.scope_last = settings_.block_scope
                     ? std::min(q.length, q.prompt_length + settings_.block_length)
                     : q.length;
  shared_->forget(b, s);
}

sequence_step pace::plan(const batch& b, std::int32_t s) {
  const sequence& q = b.at(s);
  const progress& p = progress_.at(s);
  const auto place = static_cast<std::size_t>(s);
  const bool entry = p.step == 0;
  const bool refresh = !entry && settings_.cache_steps > 0 && p.step % settings_.cache_steps == 0;
  const bool cap = p.step + 1 == settings_.steps && settings_.commit_at_cap;
  sequence_step step;
  step.active = true;
  // With shifted logits the last prompt row predicts the first generated position.
  const bool from_start = entry || (refresh && settings_.refresh_prompt);
  step.first = from_start ? 0 : q.prompt_length - (b.model().shifted_logits ? 1 : 0);
  step.last = q.length;
  step.kv_length = q.length;
  const std::int32_t scope_first = cap ? q.prompt_length : p.scope_first;
  const std::int32_t scope_last = cap ? q.length : p.scope_last;
  step.candidate_first = settings_.running_history ? q.prompt_length : scope_first;
  step.candidate_last = settings_.running_history ? q.length : scope_last;
  // The schedule's share: all of the canvas in T steps.
  step.quota =
      cap ? q.length : (q.length - q.prompt_length + settings_.steps - 1) / settings_.steps;
  shared_->whole[place] = entry || refresh ? 1 : 0;
  shared_->enter_scope(b, s, scope_first, scope_last);
  shared_->rank[place] =
      cap ? -1
          : boundary_rank(settings_, scope_last - scope_first,
                          b.count(s, scope_first, scope_last, state_masked), q.length);
  return step;
}

void pace::observe(batch& b, std::int32_t s, const sequence_step&, const step_outcome& outcome) {
  const sequence& q = b.at(s);
  progress& p = progress_.at(s);
  ++p.step;
  p.idle_steps = outcome.taken > 0 ? 0 : p.idle_steps + 1;
  // Only tokens that stay masked by their id can keep a scope from ever coming clean.
  const bool stuck = settings_.remask_by_id && p.idle_steps >= p.scope_last - p.scope_first;
  if (p.step == settings_.steps || b.count(s, q.prompt_length, q.length, state_masked) == 0) {
    finish(b, s);
    return;
  }
  while (stuck || b.count(s, p.scope_first, p.scope_last, state_masked) == 0) {
    if (p.scope_last == q.length) {
      finish(b, s);
      return;
    }
    p.scope_first = p.scope_last;
    p.scope_last = std::min(q.length, p.scope_first + settings_.block_length);
    p.idle_steps = 0;
    if (stuck) break;
  }
}

void pace::finish(batch& b, std::int32_t s) {
  sequence& q = b.at(s);
  q.finished = true;
  q.output_end = q.length;
}

void rows::select(const batch& b, const step_choice& plan, row_lists& list) {
  const backend& backend = b.backend();
  first_.clear();
  last_.clear();
  for (const sequence_step& step : plan.of) {
    first_.push_back(step.active ? step.first : 0);
    last_.push_back(step.active ? step.last : 0);
  }
  delayed_cache_params settle;
  settle.masked = state_masked;
  settle.decoded = state_decoded;
  settle.cached = state_cached;
  settle.delay = settings_.delay && !settings_.keep_mask_input;
  settle.shifted = b.model().shifted_logits;
  backend.run(op::advance_delayed_cache{b.state(), settle, first_.data(), last_.data(),
                                        shared_->whole.data(), shared_->flags});
  // ffn_only: every row of the canvas attends.
  const tensor_view flags = settings_.ffn_only ? tensor_view{} : shared_->flags.view();
  list.rows = backend.run(op::compact{
      b.capacity(), flags, 1, first_.data(), last_.data(), list.begin.as<std::int32_t>(),
      list.position.as<std::int32_t>(), list.sequence.as<std::int32_t>()});
}

void rows::feed_forward_rows(const batch& b, const step_choice&, const row_lists& list,
                             row_lists& updated, tensor& index) {
  const backend& backend = b.backend();
  updated.rows =
      backend.run(op::compact{b.capacity(), shared_->flags, 1, first_.data(), last_.data(),
                              updated.begin.as<std::int32_t>(), updated.position.as<std::int32_t>(),
                              updated.sequence.as<std::int32_t>()});
  backend.run(op::find_candidates{list.set(b.capacity()), shared_->flags, one_state(1),
                                  first_.data(), last_.data(), 0, updated.begin.as<std::int32_t>(),
                                  updated.position.as<std::int32_t>(), index.as<std::int32_t>()});
}

void unmask::judge(const batch& b, const step_choice&, const tensor_view& head_input,
                   const packed_matrix& head, candidate_lists& c) {
  confidence_params params;
  params.gumbel_temperature = settings_.temperature;
  params.noise = {b.seeds(), b.steps()};
  params.accumulate_double = settings_.double_confidence;
  b.backend().run(op::confidence{head_input, head, c.set(b.capacity()), params, c.judged()});
}

void unmask::decide(const batch& b, const step_choice& plan, candidate_lists& c) {
  const backend& backend = b.backend();
  const candidate_set set = c.set(b.capacity());
  std::uint8_t* accept = c.accept.as<std::uint8_t>();
  backend.run(op::push_history{set, c.probability.as<float>(), settings_.replicate_first,
                               shared_->history});
  freeze_params params = settings_.decision;
  params.first = shared_->scope_first.data();
  params.last = shared_->scope_last.data();
  if (settings_.limit_to_quota) params.limit = plan.arrays.quota;
  if (shared_->traces) params.trace = shared_->traces.as<float>();
  backend.run(
      op::accept_two_centroids{set, shared_->history, shared_->rank.data(), params, accept});
  if (settings_.keep_mask_input) {
    backend.synchronize();
    for (std::int32_t i = 0; i < c.count; ++i) {
      if (accept[i] == decision_take) accept[i] = decision_hold;
    }
  }
}

}  // namespace unmask::ada_dlm
