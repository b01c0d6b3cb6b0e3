// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The forward of a step: its rows, then the layers. Layers run in one of two ways, on the same
// operations: one by one, with the policies between their parts; or, where the backend records and
// no policy has work to do between the layers, in stretches that are recorded once for a number of
// rows and repeated. A layer that narrows its rows ends a stretch behind its K/V, and the next one
// begins with the rows that are left.
#include <algorithm>
#include <cmath>

#include "harness/decode/phase_costs.h"
#include "harness/decode/step_loop_impl.h"
#include "kernels/attention.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"

namespace unmask {

layer_input step_loop::impl::input() {
  if (backend.exchanged_is_slow()) return staged_input(rows.rows, false);
  return {rows.set(limits.sequences), rows.token.as<std::int32_t>(),
          &acts[static_cast<std::size_t>(now)]};
}

layer_input step_loop::impl::staged_input(std::int32_t padded, bool gather) {
  const staged_rows to{staged.begin.as<std::int32_t>(),
                       staged.sequence.as<std::int32_t>(),
                       staged.position.as<std::int32_t>(),
                       rows.slots_differ ? staged.slot.as<std::int32_t>() : nullptr,
                       staged.token.as<std::int32_t>(),
                       gather ? staged_kept.as<std::int32_t>() : nullptr};
  backend.run(op::stage_rows{rows.set(limits.sequences), rows.token.as<std::int32_t>(),
                             kept.as<std::int32_t>(), padded, to});
  return {{limits.sequences, padded, to.row_begin, to.sequence, to.position, to.slot},
          to.token,
          &acts[static_cast<std::size_t>(now)]};
}

void step_loop::impl::forward() {
  const auto [kind, active] = kind_of_forward();
  const phase_range forward_range(kind, active);
  const stopwatch whole(seconds.forward);
  const double recording = recorded.counts().seconds;
  choose_rows();
  now = 0;
  const bool layers = !limits.dry && rows.rows > 0;  // frozen places may have nothing to repeat
  const bool record = layers && can_record(kind);
  layer_input in;
  {
    const phase_range range(work_phase::embed, rows.rows);
    backend.run(op::gather_tokens{rows.set(limits.sequences), state.canvas(),
                                  rows.token.as<std::int32_t>()});
    if (layers && !record) embed(in = input());
    if (layers) report_embed(model, rows.rows);
  }

  // The rows as they entered, for the observer and the accounting, before any narrowing.
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  entered.rows = rows.rows;
  std::copy_n(begin, limits.sequences + 1, entered.begin.as<std::int32_t>());
  std::copy_n(rows.position.as<std::int32_t>(), rows.rows, entered.position.as<std::int32_t>());
  std::copy_n(rows.sequence.as<std::int32_t>(), rows.rows, entered.sequence.as<std::int32_t>());
  if (observer) {
    backend.synchronize();
    std::copy_n(rows.token.as<std::int32_t>(), rows.rows, entered.token.as<std::int32_t>());
  }
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    rows_before[static_cast<std::size_t>(s)] = begin[s + 1] - begin[s];
  }

  if (!layers) {
    count_dry();
  } else if (record) {
    forward_recorded();
  } else {
    forward_layers(in);
  }
  seconds.forward -= recorded.counts().seconds - recording;
}

void step_loop::impl::choose_rows() {
  const phase_range range(work_phase::selection, -1);
  const stopwatch clock(seconds.selection);
  rows.slots_differ = false;
  method.rows->select(state, plan, rows);
  backend.synchronize();
  if (rows.rows > model.max_rows()) {
    throw std::logic_error("step_loop: more rows than the model was made for");
  }
  method.cache->prepare(state, plan, rows, cache);
  if (partial) method.rows->feed_forward_rows(state, plan, rows, updated, updated_index);
}

// ---- parts of a layer ---------------------------------------------------------------------------

void step_loop::impl::embed(const layer_input& in) {
  model.embed(in.token, in.acts->x.view().first(in.set.rows));
}

// Q, K and V, and the K/V into the cache.
void step_loop::impl::project(std::int32_t layer, const layer_input& in) {
  if (stores_at_once()) {
    const phase_range range(work_phase::project, layer);
    model.project_and_store(layer, in.acts->x.view().first(in.set.rows), in.set, *in.acts,
                            cache.layer(layer));
    return;
  }
  {
    const phase_range range(work_phase::project, layer);
    model.project(layer, in.acts->x.view().first(in.set.rows), in.set.position, *in.acts);
  }
  const phase_range range(work_phase::cache_update, layer);
  if (!partial) {
    backend.run(op::kv_write{in.set, model.key(*in.acts, in.set.rows),
                             model.value(*in.acts, in.set.rows), cache.layer(layer)});
    return;
  }
  backend.run(op::gather_rows{in.acts->qkv.view().first(in.set.rows),
                              updated_index.as<std::int32_t>(),
                              part.qkv.view().first(updated.rows)});
  backend.run(op::kv_write{updated.set(limits.sequences), model.key(part, updated.rows),
                           model.value(part, updated.rows), cache.layer(layer)});
}

void step_loop::impl::attend(std::int32_t layer, const layer_input& in, const key_set& keys) {
  const phase_range range(work_phase::attention, layer);
  const model_config& c = model.config();
  const float scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  const tensor_view attended = in.acts->attention.view().first(in.set.rows);
  backend.run(
      op::attention{in.set, model.query(*in.acts, in.set.rows), cache.layer(layer), keys, scale,
                    make_view(attended.data, attended.type, {in.set.rows, c.heads, c.head_dim}),
                    method.keys->key_mass(state, plan, layer)});
}

// What comes behind the attention.
void step_loop::impl::close_layer(std::int32_t layer, const layer_input& in) {
  const tensor_view x = in.acts->x.view().first(in.set.rows);
  {
    const phase_range range(work_phase::attention_output, layer);
    model.attention_output(layer, in.acts->attention.view().first(in.set.rows), x);
  }
  const phase_range range(work_phase::feed_forward, layer);
  if (!partial) {
    model.feed_forward(layer, x, in.set.sequence);
    return;
  }
  const tensor_view some = part.x.view().first(updated.rows);
  backend.run(op::gather_rows{x, updated_index.as<std::int32_t>(), some});
  model.feed_forward(layer, some);
  backend.run(op::scatter_rows{some, updated_index.as<std::int32_t>(), x});
}

void step_loop::impl::final_norm(const layer_input& in) {
  const phase_range range(work_phase::final_norm, in.set.rows);
  model.final_norm(in.acts->x.view().first(in.set.rows), final.view().first(in.set.rows));
}

// Drops rows behind the K/V of a layer; true when there are fewer. `kept` then lists those left.
bool step_loop::impl::narrow(std::int32_t layer) {
  if (!method.rows->narrows(layer)) return false;
  const transformer::activations& a = acts[static_cast<std::size_t>(now)];
  const std::int32_t before = rows.rows;
  if (!method.rows->narrow(state, plan, layer, model.query(a, before), model.key(a, before), rows,
                           kept)) {
    return false;
  }
  if (partial) throw std::logic_error("step_loop: narrow() and feed_forward_rows() together");
  if (rows.slots_differ) throw std::logic_error("step_loop: narrow() of rows with slots");
  return true;
}

// The `count` rows that `index` names become those of the other activations.
void step_loop::impl::gather_kept(const std::int32_t* index, std::int32_t count) {
  const transformer::activations& from = acts[static_cast<std::size_t>(1 - now)];
  const transformer::activations& to = acts[static_cast<std::size_t>(now)];
  backend.run(op::gather_rows{from.x, index, to.x.view().first(count)});
  backend.run(op::gather_rows{from.qkv, index, to.qkv.view().first(count)});
}

// ---- one layer after the other ------------------------------------------------------------------

void step_loop::impl::forward_layers(layer_input in) {
  const float scale = 1.0F / std::sqrt(static_cast<float>(model.config().head_dim));
  for (std::int32_t l = 0; l < model.config().layers; ++l) {
    const phase_range layer_range(work_phase::layer, l);
    if (features && l >= features->first_layer()) {
      const transformer::activations& a = acts[static_cast<std::size_t>(now)];
      const feature_work work =
          features->forward(l, state, plan, rows, a.x.view().first(rows.rows), a, cache.layer(l),
                            *method.keys, plan.arrays.kv_length);
      const phase_range range(work_phase::accounting, l);
      count_features(l, work);
      continue;
    }
    project(l, in);
    bool narrowed = false;
    {
      const phase_range range(work_phase::selection, l);
      const stopwatch clock(seconds.selection);
      narrowed = narrow(l);
    }
    if (narrowed) {
      const phase_range range(work_phase::selection, l);
      now = 1 - now;
      gather_kept(kept.as<std::int32_t>(), rows.rows);
      in = input();
    }
    const tensor_view q = model.query(*in.acts, rows.rows);
    const paged_kv pages = cache.layer(l);
    key_set keys;
    {
      const phase_range range(work_phase::selection, l);
      const stopwatch clock(seconds.selection);
      keys = method.keys->select(state, plan, l, q, pages, plan.arrays.kv_length);
    }
    if (observer && observer->wants_layers()) {
      backend.synchronize();
      observer->on_layer({state, plan, l, in.set, q, model.key(*in.acts, rows.rows),
                          model.value(*in.acts, rows.rows), pages, keys, scale,
                          method.cache->slot_positions(plan, l, 0)});
    }
    attend(l, in, keys);
    {
      const phase_range range(work_phase::selection, l);
      const stopwatch clock(seconds.selection);
      if (method.cache->acts_after_attention(plan)) {
        method.cache->after_attention({state, plan, l, in.set, q, model.key(*in.acts, rows.rows),
                                       model.value(*in.acts, rows.rows)},
                                      cache);
      }
    }
    close_layer(l, in);
    const phase_range range(work_phase::accounting, l);
    count_layer(l, keys, l == 0);
  }
  report_final_norm(model, rows.rows);
  final_norm(in);
}

// ---- recorded -----------------------------------------------------------------------------------

// A listener of phases sees every kernel launched by itself, so that it can tell phases apart. A
// prefill comes once, with a number of rows that will hardly come again.
bool step_loop::impl::can_record(work_phase kind) const {
  return kind != work_phase::prefill && backend.recorded_rows(rows.rows) > 0 && !features &&
         !partial && method.keys->names_arrays_only() &&
         !method.cache->acts_after_attention(plan) && !(observer && observer->wants_layers()) &&
         current_listener() == nullptr;
}

std::int32_t step_loop::impl::end_of_stretch(std::int32_t first, bool inside) const {
  std::int32_t end = inside ? first + 1 : first;
  while (end < model.config().layers && !method.rows->narrows(end)) ++end;
  return end;
}

void step_loop::impl::forward_recorded() {
  stretch some;
  for (;;) {
    some.end = end_of_stretch(some.first, some.inside);
    run_stretch(some);
    {
      const phase_range range(work_phase::accounting, some.first);
      for (std::int32_t l = some.first; l < some.end; ++l) {
        count_layer(l, keys_of[static_cast<std::size_t>(l)], l == 0);
      }
    }
    if (some.end == model.config().layers) return;
    const phase_range range(work_phase::selection, some.end);
    const stopwatch clock(seconds.selection);
    const bool fewer = narrow(some.end);
    if (fewer) now = 1 - now;
    some = {some.end, true, fewer, 0};
  }
}

// What the layers of a stretch see, for `padded` rows.
void step_loop::impl::choose_keys(const stretch& some, std::int32_t padded) {
  const transformer::activations& a = acts[static_cast<std::size_t>(now)];
  for (std::int32_t l = some.first; l < some.end; ++l) {
    const key_set& keys = keys_of[static_cast<std::size_t>(l)] = method.keys->select(
        state, plan, l, model.query(a, padded), cache.layer(l), plan.arrays.kv_length);
    if (keys.tiles.keep != nullptr) throw std::logic_error("step_loop: a block mask is recorded");
  }
}

void step_loop::impl::run_stretch(const stretch& some) {
  const std::int32_t padded = std::min(backend.recorded_rows(rows.rows), model.max_rows());
  const layer_input in = staged_input(padded, some.gather);
  choose_keys(some, padded);
  std::vector<std::uint64_t> key{static_cast<std::uint64_t>(some.first),
                                 some.inside ? 1U : 0U,
                                 some.gather ? 1U : 0U,
                                 static_cast<std::uint64_t>(some.end),
                                 static_cast<std::uint64_t>(padded),
                                 static_cast<std::uint64_t>(now),
                                 rows.slots_differ ? 1U : 0U};
  for (std::int32_t l = some.first; l < some.end; ++l) {
    const key_set& keys = keys_of[static_cast<std::size_t>(l)];
    for (const std::int32_t* array :
         {keys.kv_length, keys.key_begin, keys.key_slot, cache.layer(l).page_table}) {
      key.push_back(reinterpret_cast<std::uintptr_t>(array));
    }
    key.push_back(static_cast<std::uint64_t>(keys.mask));
    key.push_back(static_cast<std::uint64_t>(keys.block));
  }
  const phase_range range(work_phase::recorded, rows.rows);
  recorded.run(key, [&] { issue_stretch(some, in, staged_kept.as<std::int32_t>()); });
}

// `index` [in.set.rows]: where the rows stood before they shrank.
void step_loop::impl::issue_stretch(const stretch& some, const layer_input& in,
                                    const std::int32_t* index) {
  if (some.gather) {
    const phase_range gathering(work_phase::selection, some.first);
    gather_kept(index, in.set.rows);
  }
  if (some.first == 0 && !some.inside) {
    const phase_range embedding(work_phase::embed, in.set.rows);
    embed(in);
  }
  for (std::int32_t l = some.first; l < some.end; ++l) {
    const phase_range layer_range(work_phase::layer, l);
    if (l > some.first || !some.inside) project(l, in);
    attend(l, in, keys_of[static_cast<std::size_t>(l)]);
    close_layer(l, in);
  }
  if (some.end < model.config().layers) {
    const phase_range layer_range(work_phase::layer, some.end);
    project(some.end, in);
  } else {
    final_norm(in);
  }
}

}  // namespace unmask
