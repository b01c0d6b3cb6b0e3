// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Many steps without the host. A step is issued once, with every number that depends on what was
// decided left in memory: lists are as long as their bound and filled up with rows that are
// nobody's, layers and head are recorded for several numbers of rows of which the device picks one,
// and the pace observes and plans by an operation. The backend repeats that until somebody has
// finished (ops::repeat_while); then the host reads tokens, records and counts.
#include <algorithm>

#include "harness/decode/step_loop_impl.h"
#include "kernels/shared_vector.h"

namespace unmask {

struct step_loop::impl::ahead_parts {
  tensor plan_memory;
  step_arrays arrays;
  shared_vector<run_state> run_of{1};
  candidate_lists found;
  std::vector<std::int32_t> row_bounds, head_bounds;  // of the run that is issued
  // Rows and keys of each sequence summed over the steps, for each group of layers that have the
  // same ones.
  static constexpr std::int32_t most_groups = 8;
  shared_vector<std::int64_t> tallies;  // [most_groups, 2, S]
  std::vector<std::size_t> group_of;    // [layers]
  std::size_t groups = 0;

  run_state* run() { return run_of.data(); }
  std::int64_t* rows_of(std::size_t group) {
    return tallies.data() + group * 2 * static_cast<std::size_t>(places);
  }
  std::int64_t* keys_of(std::size_t group) { return rows_of(group) + places; }
  std::int32_t places;

  ahead_parts(const ops& backend, std::int32_t sequences, std::int32_t layers, std::int64_t rows)
      : plan_memory(backend.allocate(dtype::i32, {step_array_count * sequences})),
        arrays(step_arrays_in(plan_memory.as<std::int32_t>(), sequences)),
        found(make_candidate_lists(backend, sequences, rows, memory_use::resident)),
        tallies(static_cast<std::size_t>(most_groups * 2 * sequences)),
        group_of(static_cast<std::size_t>(layers)),
        places(sequences) {}
};

std::int32_t step_loop::run_ahead(std::int32_t most) {
  return impl_->run_ahead(most, nullptr);
}

// A listener of phases wants to tell them apart, and an observer to see every step.
bool step_loop::impl::can_run_ahead(std::int32_t rows_of_step) const {
  return run.recorded_rows(rows_of_step) > 0 && rows_of_step <= model.max_rows() && !limits.dry &&
         !features && !partial && observer == nullptr && method.keys->names_arrays_only() &&
         current_listener() == nullptr;
}

// Sequences that are in a block; -1: one is in its prompt, waits or only repeats its rows.
std::int32_t step_loop::impl::in_blocks(const step_part* parts_of_step) const {
  std::int32_t active = 0;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    if (!state.occupied(s)) continue;
    if (parts_of_step && parts_of_step[s] == step_part::recompute) return -1;
    if (state.at(s).finished) continue;
    if (parts_of_step && parts_of_step[s] == step_part::out) return -1;
    if (method.pace->prefilling(state, s)) return -1;
    ++active;
  }
  return active;
}

std::int32_t step_loop::impl::run_ahead(std::int32_t most, const step_part* parts_of_step) {
  if (!method.runs_ahead || !run.runs_ahead()) return 0;
  const std::int32_t block = method.pace->shape(model.config()).block;
  const std::int32_t active = in_blocks(parts_of_step);
  if (active <= 0 || most <= 0 || !can_run_ahead(active * block)) return 0;
  const stopwatch clock(seconds.ahead);
  const double recording = recorded_runs.counts().seconds;
  const phase_range range(work_phase::recorded, active);
  block_record* records = method.pace->records(state);
  if (records == nullptr) return 0;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    block_record& r = records[s];
    r.forwards = r.commit_forwards = r.denoise_steps = r.committed = r.judged = 0;
    if (r.running == 0) continue;
    if (r.history + block > cache.slots(s)) {
      throw std::logic_error("step_loop: a sequence runs past its pages");
    }
    // Pages come with every step: then the host must be asked after each.
    if (state.at(s).length > cache.slots(s)) most = 1;
  }
  if (!ahead) {
    ahead = std::make_shared<ahead_parts>(run, limits.sequences, model.config().layers,
                                          model.max_rows());
  }
  ahead_parts& a = *ahead;
  const std::int32_t bound = std::min(run.recorded_rows(active * block), model.max_rows());
  // Every position in play is a row: as many as there are sequences. Other row policies leave some
  // out, so that any number may come.
  a.row_bounds.clear();
  a.head_bounds = {0};
  for (std::int32_t rows_of_step = 1; rows_of_step <= bound;) {
    const std::int32_t padded = std::min(run.recorded_rows(rows_of_step), bound);
    if (padded == bound || !method.rows->takes_all_in_play()) a.row_bounds.push_back(padded);
    a.head_bounds.push_back(padded);
    rows_of_step = padded + 1;
  }
  *a.run() = {0, 0, most};
  std::ranges::fill(a.tallies, 0);

  const step_arrays host_arrays = std::exchange(plan.arrays, a.arrays);
  const auto plan_first = [&] { method.pace->issue_next_step(state, plan, nullptr, a.run()); };
  // A single step is not worth the copies.
  const bool lent = most > 1;
  if (lent) state.lend();
  plan_first();
  recorded_runs.run(
      {static_cast<std::uint64_t>(bound), lent ? 1U : 0U},
      [&] { run.repeat_while(&a.run()->go, [&] { issue_step(bound, false); }); },
      // Every bucket once, on rows that are nobody's, so that none needs anything new later.
      [&] {
        run.synchronize();
        std::fill_n(a.plan_memory.as<std::int32_t>(), step_array_count * limits.sequences, 0);
        issue_step(bound, true);
        run.synchronize();
        plan_first();
      });
  if (lent) state.take_back();
  run.synchronize();
  plan.arrays = host_arrays;
  take_counts(method.pace->records(state));
  seconds.ahead -= recorded_runs.counts().seconds - recording;
  return a.run()->steps;
}

// One step of everybody. prepare: every bucket of a choice instead of one, and no decision.
void step_loop::impl::issue_step(std::int32_t most, bool prepare) {
  ahead_parts& a = *ahead;
  staged.padded = most;
  staged.slots_differ = false;
  method.rows->select(state, plan, staged);
  run.gather_tokens(staged.set(limits.sequences), state.canvas(), staged.token.as<std::int32_t>());
  issue_layers(most, prepare);

  candidate_lists& c = a.found;
  const std::int32_t shift = model.config().shifted_logits ? 1 : 0;
  run.find_candidates(staged.set(limits.sequences), state.state(), state_masked,
                      plan.arrays.candidate_first, plan.arrays.candidate_last, shift,
                      c.begin.as<std::int32_t>(), c.position.as<std::int32_t>(),
                      c.row.as<std::int32_t>(), most);
  const auto judge = [&](std::int32_t count) {
    c.count = count;
    method.unmask->judge(state, plan, final.view().first(most), model.head(), c);
  };
  if (prepare) {
    for (std::int32_t count : a.head_bounds) {
      if (count > 0) judge(count);
    }
  } else {
    run.with_bucket(c.begin.as<std::int32_t>() + limits.sequences, a.head_bounds, judge);
  }
  c.count = most;
  method.unmask->decide(state, plan, c);
  run.commit(c.set(limits.sequences), c.token.as<std::int32_t>(), c.accept.as<std::uint8_t>(),
             state_decoded, method.unmask->masks_by_id() ? model.config().mask_id : -1,
             state.canvas(), state.state(), c.committed.as<std::int32_t>());
  if (!prepare) method.pace->issue_next_step(state, plan, &c, a.run());
}

// The layers in the stretches of step_forward.cpp; behind each the rows may shrink.
void step_loop::impl::issue_layers(std::int32_t most, bool prepare) {
  ahead_parts& a = *ahead;
  now = 0;
  a.groups = 0;
  stretch some;
  for (;;) {
    some.end = end_of_stretch(some.first, some.inside);
    choose_keys(some, most);
    if (!prepare) issue_tallies(some);
    const auto layers = [&](std::int32_t padded) {
      layer_input in{staged.set(limits.sequences), staged.token.as<std::int32_t>(),
                     &acts[static_cast<std::size_t>(now)]};
      in.set.rows = padded;
      issue_stretch(some, in, staged_kept.as<std::int32_t>());
    };
    if (prepare) {
      for (std::int32_t padded : a.row_bounds) layers(padded);
    } else {
      run.with_bucket(staged.begin.as<std::int32_t>() + limits.sequences, a.row_bounds, layers);
    }
    if (some.end == model.config().layers) return;
    const transformer::activations& x = acts[static_cast<std::size_t>(now)];
    const bool fewer = method.rows->narrow(state, plan, some.end, model.query(x, most),
                                           model.key(x, most), staged, staged_kept);
    if (fewer) now = 1 - now;
    some = {some.end, true, fewer, 0};
  }
}

void step_loop::impl::issue_tallies(const stretch& some) {
  ahead_parts& a = *ahead;
  const key_set* last = nullptr;
  for (std::int32_t l = some.first; l < some.end; ++l) {
    const key_set& keys = keys_of[static_cast<std::size_t>(l)];
    const bool same = last != nullptr && last->kv_length == keys.kv_length &&
                      last->key_begin == keys.key_begin && last->mask == keys.mask &&
                      last->block == keys.block;
    if (!same) {
      if (a.groups == ahead_parts::most_groups) {
        throw std::logic_error("step_loop: too many kinds of layers to count");
      }
      run.tally(staged.set(limits.sequences), keys, a.rows_of(a.groups), a.keys_of(a.groups));
      ++a.groups;
    }
    a.group_of[static_cast<std::size_t>(l)] = a.groups - 1;
    last = &keys;
  }
}

// What count_layer() and decide() add step by step, and what the last step was.
void step_loop::impl::take_counts(const block_record* records) {
  ahead_parts& a = *ahead;
  const model_config& m = model.config();
  const double per_key = 4.0 * m.heads * m.head_dim;
  std::int32_t* entered_begin = entered.begin.as<std::int32_t>();
  std::int32_t* judged_begin = found.begin.as<std::int32_t>();
  entered_begin[0] = judged_begin[0] = 0;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const block_record& r = records[s];
    std::int64_t entering = r.forwards > 0 ? a.rows_of(0)[s] : 0;
    entered_begin[s + 1] = entered_begin[s] + static_cast<std::int32_t>(entering);
    judged_begin[s + 1] = judged_begin[s] + static_cast<std::int32_t>(r.judged);
    found.committed.as<std::int32_t>()[s] = static_cast<std::int32_t>(r.committed);
    plan.of[static_cast<std::size_t>(s)] = {};
    if (r.forwards == 0) continue;
    plan.of[static_cast<std::size_t>(s)] = last_step[static_cast<std::size_t>(s)] = made_last(r);
    sequence& q = state.at(s);
    sequence_counters& c = q.counters;
    c.forwards += r.forwards;
    c.commit_forwards += r.commit_forwards;
    c.denoise_steps += r.denoise_steps;
    c.committed += r.committed;
    c.head_rows += r.judged;
    c.flops += static_cast<double>(r.judged) * model.head_flops();
    c.rows += entering;
    c.decode_rows += entering;
    for (std::int32_t l = 0; l < m.layers; ++l) {
      const std::size_t group = a.group_of[static_cast<std::size_t>(l)];
      const std::int64_t n = a.rows_of(group)[s];
      const auto keys = static_cast<double>(a.keys_of(group)[s]);
      const row_cost cost = model.cost(l);
      c.layer_rows += n;
      c.late_layer_rows += l >= first_late_layer ? n : 0;
      c.feed_forward_rows += n;
      c.keys_seen += keys;
      c.flops += static_cast<double>(entering) * cost.qkv_flops +
                 static_cast<double>(n) * (cost.output_flops + cost.feed_forward_flops) +
                 keys * per_key;
      entering = n;
    }
    q.step += static_cast<std::int32_t>(r.forwards);
    q.finished = r.finished != 0;
    q.output_end = r.output_end;
  }
}

// The step that a record comes from. A block in which nothing was done yet opened with the last
// commit forward of the one before.
sequence_step step_loop::impl::made_last(const block_record& r) const {
  const std::int32_t block = method.pace->shape(model.config()).block;
  const bool opened = r.step == 0 && r.commits == 0;
  sequence_step step;
  step.active = true;
  step.what = opened || r.commits > 0 ? phase::commit : phase::denoise;
  step.first = step.block_first = opened ? r.history - block : r.history;
  step.last = step.block_last = step.kv_length = step.first + block;
  step.candidate_first = step.first;
  step.candidate_last = step.what == phase::denoise ? step.last : step.first;
  return step;
}

}  // namespace unmask
