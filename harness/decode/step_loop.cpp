// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/step_loop.h"

#include <algorithm>
#include <numeric>

#include "harness/base/ranks/group.h"
#include "harness/decode/phase_costs.h"
#include "harness/decode/step_loop_impl.h"
#include "kernels/decisions.h"
#include "kernels/host_memory.h"
#include "kernels/rows.h"
#include "kernels/shared_vector.h"

namespace unmask {
namespace {

// Of the row of a candidate (unmask_traits::without_rows).
bool is_computed(std::int32_t row) {
  return row >= 0;
}

// Whether the rows of pictures in a prompt are those of its grids, one after the other.
bool fills_grids(const sequence_request& request) {
  auto next = request.prompt.begin();
  const auto end = request.prompt.end();
  const auto is_row = [](std::int32_t id) { return id < 0; };
  for (const auto& [down, across] : request.grids) {
    next = std::find_if(next, end, is_row);
    const std::int64_t rows = std::int64_t{down} * across;
    if (down < 1 || across < 1 || rows > end - next) return false;
    if (!std::all_of(next, next + rows, is_row)) return false;
    next += rows;
  }
  return std::none_of(next, end, is_row);
}

// Refuses a rule that edits or remasks tokens whose KV the cache keeps.
void refuse_edits(const recipe& r) {
  if (!r.unmask->traits().revises() || !r.cache->traits().keeps_decided) return;
  throw usage_error(r.method +
                    " cannot run: its cache keeps the KV of unmasked tokens, but its rule may edit "
                    "or remask them. Choose a rule without edits, or another cache");
}

}  // namespace

step_loop::impl::impl(const transformer& m, recipe r, const loop_limits& l)
    : model(m),
      backend(m.backend()),
      method(std::move(r)),
      limits(l),
      state(backend, m.config(), l.sequences, l.max_length),
      cache(backend, m.local(), method.cache->storage(0, l.max_length), l.sequences, l.kv_pages,
            m.kv_dtype()),
      partial(method.rows->traits().partial_rows),
      graphs(backend) {
  if (l.dry) refuse_dry();
  refuse_edits(method);
  const std::int64_t n = m.max_rows();
  const std::int64_t s = l.sequences;
  if (l.picture_rows > 0) {
    pictures = backend.allocate(dtype::f32, {s * l.picture_rows, m.config().hidden});
  }
  acts[0] = m.make_activations();
  if (!method.rows->traits().narrows_at.empty()) acts[1] = m.make_activations();
  const bool carries =
      m.config().shifted_logits &&
      (m.config().attention == mask_kind::block_causal || method.rows->traits().carries);
  const std::int64_t behind = carries ? carried_outputs::room(l.sequences, l.max_length) : 0;
  if (carries) carried.emplace(backend, l.sequences, l.max_length, n, m.config().hidden);
  final = backend.allocate(dtype::f32, {n + behind, m.config().hidden});
  make_row_lists();
  if (partial) part = m.make_activations();
  if (l.picture_rows > 0 && m.config().axes[0] > 0) {
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      axes[axis] = backend.allocate(dtype::i32, {s, l.max_length}, memory_use::host_visible);
      for (transformer::activations* a : {&acts[0], &acts[1], &part}) {
        a->axes[axis] = axes[axis];
      }
    }
    for (transformer::activations* a : {&acts[0], &acts[1], &part}) {
      a->axis_position = backend.allocate(dtype::i32, {n});
    }
  }
  make_view_lists();
  found = make_candidate_lists(backend, l.sequences, n);
  if (method.unmask->traits().holds) state.keep_held_tokens();
  tokens_had.resize(static_cast<std::size_t>(s));
  idle.resize(static_cast<std::size_t>(s));
  if (method.features) {
    features = std::make_unique<feature_layers>(m, *method.features, l.sequences, l.max_length);
  }
  plan.of.resize(static_cast<std::size_t>(s));
  last_step.resize(static_cast<std::size_t>(s));
  choice_flops.resize(static_cast<std::size_t>(s));
  keys_of.resize(static_cast<std::size_t>(m.config().layers));
}

// On a GPU neighbours share a copy: short lists lie between the long ones that change with them.
void step_loop::impl::make_row_lists() {
  const std::int64_t n = model.max_rows();
  const std::int64_t s = limits.sequences;
  const auto ints = [&](std::int64_t count, memory_use use = memory_use::host_visible) {
    return backend.allocate(dtype::i32, {count}, use);
  };
  const auto arrays = std::array{&step_arrays::first,           &step_arrays::last,
                                 &step_arrays::candidate_first, &step_arrays::candidate_last,
                                 &step_arrays::kv_length,       &step_arrays::quota,
                                 &step_arrays::block_first};
  rows.sequence = ints(n);
  rows.begin = ints(s + 1);
  plan_memory = ints(std::ssize(arrays) * s);
  rows.position = ints(n);
  rows.slot = ints(n);
  kept = ints(n);
  rows.token = ints(n, memory_use::resident);
  auto* next = plan_memory.as<std::int32_t>();
  for (std::int32_t* step_arrays::*array : arrays) {
    plan.arrays.*array = next;
    next += s;
  }
  const auto lists = [&](memory_use use) {
    return row_lists{ints(s + 1, use), ints(n, use), ints(n, use), {}, 0, ints(n, use), false};
  };
  staged = lists(memory_use::resident);
  staged_kept = ints(n, memory_use::resident);
  entered.begin = allocate_host(dtype::i32, {s + 1});
  for (tensor* t : {&entered.sequence, &entered.position, &entered.token}) {
    *t = allocate_host(dtype::i32, {n});
  }
  if (!partial) return;
  updated = lists(memory_use::host_visible);
  updated_index = ints(n);
}

step_loop::step_loop(const transformer& model, recipe method, const loop_limits& limits)
    : impl_(std::make_unique<impl>(model, std::move(method), limits)) {}
step_loop::~step_loop() = default;

std::int32_t step_loop::length_of(const sequence_request& request) const {
  return impl_->method.pace->canvas_length(impl_->model.config(), request);
}

// Before anything is taken for the request.
void step_loop::impl::check_pictures(const sequence_request& request,
                                     const tensor_view& shown) const {
  if (limits.dry) return;  // no row is looked at
  const std::int64_t count = shown.data != nullptr ? shown.rows() : 0;
  if (count > limits.picture_rows) {
    throw usage_error("the pictures of a request take " + std::to_string(count) +
                      " rows, more than the " + std::to_string(limits.picture_rows) +
                      " the loop was made for");
  }
  if (axes[0] && !fills_grids(request)) {
    throw usage_error("the rows of a request's pictures have no places on the axes of " +
                      model.config().name);
  }
  for (const std::int32_t id : request.prompt) {
    if (id < -count) {
      throw usage_error("prompt token " + std::to_string(id) + " is outside the vocabulary of " +
                        model.config().name);
    }
  }
}

// The rows of place s stand behind those of the places before it, and its canvas names them so.
void step_loop::impl::show(std::int32_t s, const tensor_view& shown) {
  if (shown.data == nullptr) return;
  const std::int32_t before = s * limits.picture_rows;
  std::int32_t* canvas = state.canvas().row<std::int32_t>(s);
  for (std::int32_t p = 0; p < state.at(s).prompt_length; ++p) {
    if (canvas[p] < 0) canvas[p] -= before;
  }
  shared_vector<std::int32_t> all(static_cast<std::size_t>(shown.rows()));
  std::iota(all.begin(), all.end(), 0);
  backend.run(op::gather_rows{shown, all.data(), pictures.view().slice(before, shown.rows())});
  backend.synchronize();  // the list ends here
}

// Text counts up on all axes at once; a picture begins where the count is and takes a block of places,
// row by row, and what comes behind counts on from its longer side (Qwen2-VL's get_rope_index).
void step_loop::impl::place_on_axes(std::int32_t s, const sequence_request& request) {
  if (!axes[0]) return;
  std::int32_t next = 0, at = 0;
  const auto put = [&](std::int32_t row, std::int32_t column) {
    axes[0].row<std::int32_t>(s)[at] = next;
    axes[1].row<std::int32_t>(s)[at] = next + row;
    axes[2].row<std::int32_t>(s)[at++] = next + column;
  };
  const auto prompt = static_cast<std::int32_t>(request.prompt.size());
  const auto shows = [&] {
    return at < prompt && request.prompt[static_cast<std::size_t>(at)] < 0;
  };
  auto grid = request.grids.begin();
  while (at < state.at(s).length) {
    if (!shows()) {
      put(0, 0);
      ++next;
      continue;
    }
    const auto [down, across] = *grid++;  // check_pictures counted them
    for (std::int32_t i = 0; i < down * across; ++i) put(i / across, i % across);
    next += std::max(down, across);
  }
}

std::int32_t step_loop::admit(const sequence_request& request, std::int32_t slots,
                              const tensor_view& pictures) {
  impl& m = *impl_;
  m.check_pictures(request, pictures);
  for (std::int32_t s = 0; s < m.limits.sequences; ++s) {
    if (m.state.occupied(s)) continue;
    const std::int32_t length = length_of(request);
    const std::int32_t first = slots > 0 ? std::min(slots, length) : length;
    const auto prompt = static_cast<std::int32_t>(request.prompt.size());
    if (!m.cache.reserve(s, m.storage(prompt, first))) return -1;
    if (m.features && !m.features->reserve(s, length)) {
      m.cache.release(s);
      return -1;
    }
    m.state.admit(s, request, length);
    m.show(s, pictures);
    m.place_on_axes(s, request);
    m.tokens_had[static_cast<std::size_t>(s)].clear();
    m.idle[static_cast<std::size_t>(s)] = {};
    if (m.carried) m.carried->forget(s);
    m.method.pace->start(m.state, s);
    return s;
  }
  return -1;
}

bool step_loop::reserve(std::int32_t place, std::int32_t slots) {
  impl& m = *impl_;
  const sequence& q = m.state.at(place);
  return m.cache.reserve(place, m.storage(q.prompt_length, std::min(slots, q.length)));
}

bool step_loop::fits(const sequence_request& request) const {
  const auto prompt = static_cast<std::int32_t>(request.prompt.size());
  return impl_->cache.fits(impl_->storage(prompt, length_of(request)));
}

void step_loop::release(std::int32_t place) {
  impl_->cache.release(place);
  if (impl_->features) impl_->features->release(place);
  impl_->state.clear(place);
}

pass_totals step_loop::totals() const {
  const impl& m = *impl_;
  pass_totals t = m.totals;
  t.peak_kv_bytes = m.cache.peak_bytes() + (m.features ? m.features->peak_bytes() : 0);
  if (const auto& of_method = m.method.views.state_bytes) {
    const tensor_view held = m.state.held();
    t.state_bytes = of_method() + (held.data ? held.elements() * sizeof(std::int32_t) : 0);
  }
  t.recording_seconds = m.graphs.counts().seconds;
  return t;
}
const graph_counts& step_loop::graphs() const {
  return impl_->graphs.counts();
}
const batch& step_loop::state() const {
  return impl_->state;
}
const kv_cache& step_loop::cache() const {
  return impl_->cache;
}
pace_policy& step_loop::pace() const {
  return *impl_->method.pace;
}
const step_choice& step_loop::plan() const {
  return impl_->plan;
}
std::int32_t step_loop::rows_entered(std::int32_t s) const {
  return impl_->entered.begin.as<std::int32_t>()[s + 1] -
         impl_->entered.begin.as<std::int32_t>()[s];
}
step_outcome step_loop::outcome(std::int32_t s) const {
  return impl_->outcome_of(s);
}
std::int32_t step_loop::candidates(std::int32_t s) const {
  return impl_->found.begin.as<std::int32_t>()[s + 1] - impl_->found.begin.as<std::int32_t>()[s];
}
void step_loop::observe(step_observer* observer) {
  impl_->observer = observer;
}

std::vector<std::int32_t> step_loop::output(std::int32_t place) const {
  const sequence& q = impl_->state.at(place);
  return impl_->state.tokens(place, q.prompt_length, std::max(q.output_end, q.prompt_length));
}

std::vector<std::int32_t> step_loop::canvas(std::int32_t place) const {
  const sequence& q = impl_->state.at(place);
  return impl_->state.tokens(place, q.prompt_length, q.length);
}

bool step_loop::step() {
  return step(nullptr);
}

bool step_loop::step(const schedule_action* parts) {
  const phase_range range(profile_phase::step, impl_->step_index++);
  impl_->parts = parts;
  if (!impl_->make_plan()) return false;
  ++impl_->totals.steps;
  if (rank_group* ranks = current_ranks()) {
    impl_->step_of_rank(*ranks);
    return true;
  }
  impl_->forward();
  impl_->decide();
  return true;
}

void step_loop::impl::refuse_dry() const {
  const char* what = needs_activations(method);
  if (what == nullptr) return;
  throw usage_error(method.method + " cannot run without the model: " + what +
                    " depend on activations");
}

bool step_loop::impl::make_plan() {
  const phase_range range(profile_phase::plan, step_index - 1);
  const stopwatch clock(totals.planning_seconds);
  bool any = false;
  std::int32_t most_keys = 0;
  backend.bring_home();
  method.pace->begin(state, parts);
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    step = {};
    if (!state.occupied(s) || (parts && parts[s] == schedule_action::out)) continue;
    if (parts && parts[s] == schedule_action::recompute) {
      step = recompute_step(s);
    } else if (!state.at(s).finished) {
      step = method.pace->plan(state, s);
      last_step[static_cast<std::size_t>(s)] = step;
    }
    any = any || step.active;
    const std::int32_t keys = step.active ? std::max({step.last, step.kv_length, step.slots}) : 0;
    if (keys > cache.slots(s)) throw std::logic_error("step_loop: a sequence runs past its pages");
    most_keys = std::max(most_keys, keys);
  }
  if (!any) return false;
  most_pages = most_keys <= short_pages * kv_page_size ? short_pages : 0;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    const sequence_step& in = step.active ? step : sequence_step{};
    const step_arrays& a = plan.arrays;
    a.first[s] = in.first;
    a.last[s] = in.last;
    // A prompt is decided and never up for a decision.
    a.candidate_first[s] =
        step.active ? std::max(in.candidate_first, state.at(s).prompt_length) : 0;
    a.candidate_last[s] = in.candidate_last;
    a.kv_length[s] = in.kv_length;
    a.quota[s] = in.quota;
    a.block_first[s] = in.block_first;
  }
  return true;
}

// The rows of the last block of the last step, with nothing to decide. Writing the K/V of tokens
// that did not change changes nothing.
sequence_step step_loop::impl::recompute_step(std::int32_t s) const {
  sequence_step step = last_step[static_cast<std::size_t>(s)];
  const std::int32_t block = method.pace->shape().block;
  if (block > 0) step.first = std::max(step.first, step.last - block);
  step.what = forward_kind::denoise;
  step.recompute = true;
  step.candidate_first = step.candidate_last;
  step.quota = 0;
  return step;
}

// What the forward is for, and how many sequences take part.
std::pair<profile_phase, std::int32_t> step_loop::impl::kind_of_forward() const {
  std::int32_t prefill = 0, commit = 0, active = 0;
  for (const sequence_step& step : plan.of) {
    active += step.active;
    prefill += step.active && step.what == forward_kind::prefill;
    commit += step.active && step.what == forward_kind::commit;
  }
  if (prefill == active) return {profile_phase::prefill, active};
  if (commit == active) return {profile_phase::commit_forward, active};
  return {prefill + commit > 0 ? profile_phase::mixed_forward : profile_phase::denoise, active};
}

std::int32_t step_loop::impl::find_candidates() {
  const std::int32_t shift = model.config().shifted_logits ? 1 : 0;
  if (method.unmask->traits().without_rows) {
    found.count = list_candidates(shift);
    return rows.rows;
  }
  const bool revises = method.unmask->traits().revises();
  const auto wanted =
      static_cast<std::uint8_t>(one_state(state_masked) | (revises ? one_state(state_decoded) : 0));
  const row_set readable =
      carried ? carried->read(state, plan, rows, final, limits.dry) : rows.set(limits.sequences);
  found.count = backend.run(op::find_candidates{
      .rows = readable,
      .state = state.state(),
      .wanted = wanted,
      .first = plan.arrays.candidate_first,
      .last = plan.arrays.candidate_last,
      .shift = shift,
      .begin = found.begin.as<std::int32_t>(),
      .position = found.position.as<std::int32_t>(),
      .row = found.row.as<std::int32_t>(),
      .judges = most_views > 0 && !carried ? rows.views.judges.as<std::uint8_t>() : nullptr});
  if (!carried) return rows.rows;
  auto* row = found.row.as<std::int32_t>();
  for (std::int32_t i = 0; i < found.count; ++i) row[i] = carried->place_of(row[i]);
  return rows.rows + carried->appended();
}

// Masks of the ranges in work, with the row that predicts them or -1.
std::int32_t step_loop::impl::list_candidates(std::int32_t shift) {
  const std::int32_t* row_begin = rows.begin.as<std::int32_t>();
  const std::int32_t* row_position = rows.position.as<std::int32_t>();
  std::int32_t* begin = found.begin.as<std::int32_t>();
  std::int32_t n = 0;
  begin[0] = 0;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const std::uint8_t* states = state.state().row<std::uint8_t>(s);
    std::int32_t r = row_begin[s];
    for (std::int32_t p = plan.arrays.candidate_first[s]; p < plan.arrays.candidate_last[s]; ++p) {
      if (states[p] != state_masked) continue;
      while (r < row_begin[s + 1] && row_position[r] < p - shift) ++r;
      const bool computed = r < row_begin[s + 1] && row_position[r] == p - shift;
      if (n == model.max_rows()) throw std::logic_error("step_loop: more candidates than rows");
      found.position.as<std::int32_t>()[n] = p;
      found.row.as<std::int32_t>()[n++] = computed ? r : -1;
    }
    begin[s + 1] = n;
  }
  return n;
}

void step_loop::impl::decide() {
  const stopwatch clock(totals.step_seconds);
  const std::int32_t sequences = limits.sequences, heads = method.unmask->traits().heads();
  std::int32_t outputs = 0;
  {
    const phase_range range(profile_phase::candidates, -1);
    outputs = find_candidates();
    std::fill_n(found.outcome.as<std::int32_t>(), 4 * sequences, 0);
  }
  if (found.count > 0) {
    {
      const phase_range range(profile_phase::lm_head, found.count);
      const std::int32_t* row = found.row.as<std::int32_t>();
      const std::int64_t computed = std::count_if(row, row + found.count, is_computed);
      for (std::int32_t i = 0; i < heads; ++i) report_head(model, computed);
      method.unmask->judge(state, plan, final.view().first(outputs), model.head(), found);
    }
    const phase_range range(profile_phase::decide, found.count);
    const stopwatch rule(totals.rule_seconds);
    method.unmask->decide(state, plan, found);
  }
  if (observer) {
    backend.read(entered.token.as<std::int32_t>(), rows.token.as<std::int32_t>(),
                 static_cast<std::size_t>(entered.rows) * sizeof(std::int32_t));  // waits for all
    list_decisions();
    observer->on_step({state, plan, entered.set(sequences), entered.token.as<std::int32_t>(),
                       rows.set(sequences), found, final.view().first(outputs), decisions});
  }
  if (found.count > 0) commit();
  {
    const phase_range range(profile_phase::settle, -1);
    method.cache->settle(state, plan);
    backend.synchronize();
  }
  const phase_range range(profile_phase::accounting, -1);
  count_noted_layers();
  const std::int32_t* begin = found.begin.as<std::int32_t>();
  const std::int32_t* row = found.row.as<std::int32_t>();
  const std::int32_t* token = found.token.as<std::int32_t>();
  const std::uint8_t* accept = found.accept.as<std::uint8_t>();
  for (std::int32_t s = 0; s < sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    sequence_counters& c = state.at(s).counters;
    refuse_broken_decisions(s);
    const step_outcome outcome = outcome_of(s);
    const std::int64_t judged =
        heads * std::count_if(row + begin[s], row + begin[s + 1], is_computed);
    c.committed += outcome.taken - outcome.reopened;
    c.replaced += outcome.replaced;
    c.reopened += outcome.reopened;
    if (method.unmask->traits().replaces) c.flips += count_flips(s);
    c.decided_early += std::max(outcome.taken - std::max(step.quota, 1), 0);
    c.head_rows += judged;
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      c.mask_decided += decides_mask(accept[i]) && token[i] == model.config().mask_id ? 1 : 0;
    }
    c.flops += static_cast<double>(judged) * model.head_flops();
    if (parts && parts[s] == schedule_action::recompute) continue;
    state.advance_step(s);
    method.pace->observe(state, s, step, outcome);
    refuse_idling(s, {token + begin[s], token + begin[s + 1]}, outcome);
  }
  if (step_listener* who = current_step_listener()) who->step(numbers());
}

// A rule that unmasks nothing would go on for ever, or end with an empty answer: neither is a result.
// No published method waits for as many forward passes as there are positions, unless it counts them
// (pace_shape::steps). A model that predicts the mask token ends as its method's own code does.
void step_loop::impl::refuse_idling(std::int32_t s, std::span<const std::int32_t> candidates,
                                    const step_outcome& outcome) {
  constexpr std::int64_t fewest = 64;  // of very short responses
  const sequence& q = state.at(s);
  if (candidates.empty() || q.length == q.prompt_length) return;  // nothing is to be unmasked
  idle_forwards& none = idle[static_cast<std::size_t>(s)];
  if (!outcome.quiet()) {
    none = {};
    return;
  }
  ++none.forwards;
  none.candidates += std::ssize(candidates);
  const bool masks = q.counters.mask_decided > 0 ||
                     std::ranges::find(candidates, model.config().mask_id) != candidates.end();
  const bool never = q.finished && q.counters.committed == 0 && !masks;
  const std::int64_t counted = method.pace->shape().steps;
  if (!never && none.forwards <= std::max({std::int64_t{q.length}, counted, fewest})) return;
  throw error(
      exit_code::run_failed,
      method.method + " unmasked none of " + std::to_string(none.candidates) +
          " candidates in the last " + std::to_string(none.forwards) + " forward passes: " +
          (masks ? "the model predicts the mask token"
                 : "its rule accepts nothing with these settings and this model. A rule must "
                   "unmask a candidate sooner or later, for example the surest"));
}

// Lists what the rule decided, so that nothing above the loop reads accept bytes.
void step_loop::impl::list_decisions() {
  decisions.clear();
  const std::int32_t* begin = found.begin.as<std::int32_t>();
  const std::uint8_t* accept = found.accept.as<std::uint8_t>();
  for (std::int32_t s = 0; found.count > 0 && s < limits.sequences; ++s) {
    for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
      if (accept[i] == decision_keep) continue;
      const bool back = accept[i] == decision_reopen;
      decisions.push_back({s, found.position.as<std::int32_t>()[i],
                           back ? -1 : found.token.as<std::int32_t>()[i], accept[i],
                           found.probability.as<float>()[i]});
    }
  }
}

// Carries out what was decided.
void step_loop::impl::commit() {
  const phase_range range(profile_phase::commit, found.count);
  const unmask_traits& may = method.unmask->traits();
  const std::int32_t sequences = limits.sequences;
  auto* counts = found.outcome.as<std::int32_t>();
  op::commit commit{.candidates = found.set(sequences),
                    .token = found.token.as<std::int32_t>(),
                    .accept = found.accept.as<std::uint8_t>(),
                    .mask_id = may.masks_by_id ? model.config().mask_id : -1,
                    .mask_token = model.config().mask_id,
                    .canvas = state.canvas(),
                    .state = state.state(),
                    .held = state.held(),
                    .counts = {.taken = counts}};
  // Where every candidate is a mask, nothing else can happen to it.
  if (may.revises()) {
    commit.counts = {counts, counts + sequences, counts + 2 * sequences, counts + 3 * sequences};
  }
  backend.run(commit);
}

step_outcome step_loop::impl::outcome_of(std::int32_t s) const {
  const std::int32_t* counts = found.outcome.as<std::int32_t>() + s;
  return {counts[0], counts[limits.sequences], counts[2 * limits.sequences]};
}

void step_loop::impl::refuse_broken_decisions(std::int32_t s) const {
  const unmask_traits& may = method.unmask->traits();
  const std::uint8_t* accept = found.accept.as<std::uint8_t>();
  const auto announced = [&](std::uint8_t what) {
    switch (what) {
      case decision_keep:
      case decision_take:
        return true;
      case decision_replace:
        return may.replaces;
      case decision_reopen:
        return may.reopens;
      case decision_hold:
        return may.holds;
      default:
        return false;
    }
  };
  const std::int32_t* begin = found.begin.as<std::int32_t>();
  const bool all = std::all_of(accept + begin[s], accept + begin[s + 1], announced);
  const std::int32_t refused = found.outcome.as<std::int32_t>()[3 * limits.sequences + s];
  if (all && refused == 0) return;
  throw std::logic_error(method.method + (all ? ": it takes a token that is decided already, or "
                                                "replaces or masks one that is not"
                                              : ": its rule makes a decision that its traits do "
                                                "not announce"));
}

// Replaced tokens that a position had before. Call it once a step.
std::int64_t step_loop::impl::count_flips(std::int32_t s) {
  const std::int32_t* begin = found.begin.as<std::int32_t>();
  std::int64_t flips = 0;
  for (std::int32_t i = begin[s]; i < begin[s + 1]; ++i) {
    const std::uint8_t what = found.accept.as<std::uint8_t>()[i];
    if (what != decision_take && what != decision_replace) continue;
    const std::int32_t token = found.token.as<std::int32_t>()[i];
    std::vector<std::int32_t>& had =
        tokens_had[static_cast<std::size_t>(s)][found.position.as<std::int32_t>()[i]];
    if (std::ranges::find(had, token) == had.end()) {
      had.push_back(token);
    } else if (what == decision_replace) {
      ++flips;
    }
  }
  return flips;
}

// What the step held, for whoever listens.
step_numbers step_loop::impl::numbers() const {
  step_numbers n;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const sequence& q = state.at(s);
    ++n.batch;
    n.keys += step.kv_length;
    n.masked += state.count(s, q.prompt_length, q.length, state_masked);
    n.committed += outcome_of(s).taken - outcome_of(s).reopened;
    n.requests.push_back(q.request.id >= 0 ? q.request.id : s);
  }
  n.rows = entered.rows;
  n.late_rows = rows.rows;
  n.kv_bytes = static_cast<std::int64_t>(cache.bytes_in_use());
  return n;
}

}  // namespace unmask
