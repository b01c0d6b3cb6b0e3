// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The forward of a step: its rows, then the actions of its program (step_program.h). They are issued
// one by one; or, where the backend captures graphs and the host decides nothing between the layers
// but which rows stay, segment by segment, each captured once for a number of rows and replayed.
#include <algorithm>
#include <cmath>

#include "harness/decode/phase_costs.h"
#include "harness/decode/step_loop_impl.h"
#include "kernels/attention.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"
#include "kernels/vision.h"

namespace unmask {

void step_loop::impl::forward() {
  const auto [kind, active] = kind_of_forward();
  const phase_range forward_range(kind, active);
  const stopwatch whole(totals.step_seconds);
  const double before = graphs.counts().seconds;
  const bool evicts = choose_rows();
  note_entered();
  active_buffer = 0;
  if (limits.dry || rows.rows == 0) {  // places of a held batch may have nothing to repeat
    gather_tokens();
  } else {
    make_program(evicts);
    if (can_capture(kind)) {
      issue_captured();
    } else {
      issue_at_once();
    }
  }
  count_forward();
  totals.step_seconds -= graphs.counts().seconds - before;
}

// True: the cache evicts in this forward.
bool step_loop::impl::choose_rows() {
  const phase_range range(profile_phase::selection, -1);
  const stopwatch clock(totals.selection_seconds);
  rows.slots_differ = false;
  method.rows->select(state, plan, rows);
  backend.bring_home();
  if (rows.rows > model.max_rows()) {
    throw std::logic_error("step_loop: more rows than the model was made for");
  }
  const bool evicts = method.cache->prepare(state, plan, rows, cache);
  if (most_views > 0) list_views();
  if (partial) method.rows->feed_forward_rows(state, plan, rows, updated, updated_index);
  return evicts;
}

// What a method with views needs beside its rows, for `most_views` views of all places.
void step_loop::impl::make_view_lists() {
  if (method.rows->traits().views == 0) return;
  most_views = limits.sequences * method.rows->traits().most_views(limits.max_length);
  const std::int64_t n = model.max_rows();
  const auto ints = [&](std::initializer_list<std::int64_t> shape) {
    return backend.allocate(dtype::i32, shape, memory_use::host_visible);
  };
  row_views& views = rows.views;
  views.begin = ints({most_views + 1});
  views.sequence = ints({most_views});
  views.token = ints({n});
  views.judges = backend.allocate(dtype::u8, {n}, memory_use::host_visible);
  views.range = ints({most_views, row_views::ranges, 2});
  view_key_begin = ints({most_views + 1});
  view_tables = backend.allocate(dtype::i32, {most_views, cache.table_width()});
}

// The keys that the views see, and the page tables by which they see them. Views that this forward
// does not have get no rows and no keys.
void step_loop::impl::list_views() {
  row_views& views = rows.views;
  if (views.count > most_views) throw std::logic_error("step_loop: more views than announced");
  method.keys->see(state, plan, rows);
  const std::int32_t* range = views.range.as<std::int32_t>();
  auto* begin = view_key_begin.as<std::int32_t>();
  begin[0] = 0;
  for (std::int32_t v = 0; v < most_views; ++v) {
    std::int32_t keys = 0;
    for (std::int32_t i = 0; v < views.count && i < row_views::ranges; ++i, range += 2) {
      keys += std::max(range[1] - range[0], 0);
    }
    begin[v + 1] = begin[v] + keys;
  }
  std::fill(views.begin.as<std::int32_t>() + views.count,
            views.begin.as<std::int32_t>() + most_views + 1, rows.rows);
  if (limits.dry) return;
  const std::int64_t keys = begin[most_views];
  if (!view_slots || view_slots.view().rows() < keys) {
    graphs.forget();
    view_slots = backend.allocate(dtype::i32, {keys + keys / 2});
  }
  backend.run(op::list_ranges{views.count, row_views::ranges, views.range.as<std::int32_t>(), begin,
                              view_slots.as<std::int32_t>()});
  cache.gather_tables(views.sequence.as<std::int32_t>(), views.count, view_tables);
}

// The rows before any narrowing, for the observer and the accounting.
void step_loop::impl::note_entered() {
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  entered.rows = rows.rows;
  std::copy_n(begin, limits.sequences + 1, entered.begin.as<std::int32_t>());
  std::copy_n(rows.position.as<std::int32_t>(), rows.rows, entered.position.as<std::int32_t>());
  std::copy_n(rows.sequence.as<std::int32_t>(), rows.rows, entered.sequence.as<std::int32_t>());
  layer_begin.assign(begin, begin + limits.sequences + 1);
}

void step_loop::impl::gather_tokens() {
  backend.run(op::gather_tokens{.rows = rows.set(limits.sequences),
                                .canvas = state.canvas(),
                                .token = rows.token.as<std::int32_t>(),
                                .own = own_tokens()});
}

const std::int32_t* step_loop::impl::own_tokens() const {
  return most_views > 0 ? rows.views.token.as<std::int32_t>() : nullptr;
}

void step_loop::impl::make_program(bool evicts) {
  const bool shows = observer && observer->wants_layers();
  if (program && evicts == program_evicts && shows == program_shows) return;
  program.emplace(method, model.config().layers, evicts, shows);
  program_evicts = evicts;
  program_shows = shows;
}

// ---- one action after the other -----------------------------------------------------------------

// The rows that the operations read are looked up anew after a gather, because narrow() leaves fewer
// of them; a layer is counted when it closes, because only then its keys are known.
void step_loop::impl::issue_at_once() {
  layer_input in;
  std::optional<phase_range> layer_range;
  bool shrank = false;
  for (const layer_action& action : program->actions()) {
    const std::int32_t l = action.layer;
    layer_now = l;
    switch (action.what) {
      case step_action::embed: {
        const phase_range range(profile_phase::embed, rows.rows);
        gather_tokens();
        in = input();
        embed(in);
        report_embed(model, rows.rows);
        break;
      }
      case step_action::project:
        layer_range.emplace(profile_phase::layer, l);
        issue(action, in);
        break;
      case step_action::narrow:
        shrank = narrow(l);
        break;
      case step_action::gather: {
        const phase_range range(profile_phase::selection, l);
        if (!shrank) break;
        gather_kept(kept.as<std::int32_t>(), rows.rows);
        in = input();
        break;
      }
      case step_action::attend:
        select_keys(l);
        issue(action, in);
        break;
      case step_action::close: {
        issue(action, in);
        const phase_range range(profile_phase::accounting, l);
        count_layer_in_time(l);
        break;
      }
      case step_action::final_norm:
        report_final_norm(model, rows.rows);
        issue(action, in);
        break;
      default:
        if (action.what == step_action::feature_layer) layer_range.emplace(profile_phase::layer, l);
        decide_on_host(action);
    }
    if (action.what == step_action::close || action.what == step_action::feature_layer) {
      layer_range.reset();
    }
  }
}

// Tokens, and rows of pictures where some are tokens below 0.
void step_loop::impl::embed(const layer_input& in) {
  const tensor_view x = in.acts->x.view().first(in.set.rows);
  model.embed(in.token, x);
  if (pictures) backend.run(op::place_pictures{in.token, pictures, x});
}

// What only launches operations, on `in`.
void step_loop::impl::issue(const layer_action& action, const layer_input& in) {
  const std::int32_t l = action.layer;
  const tensor_view x = in.acts->x.view().first(in.set.rows);
  switch (action.what) {
    case step_action::embed: {
      const phase_range range(profile_phase::embed, in.set.rows);
      embed(in);
      break;
    }
    case step_action::project:
      project(l, in);
      break;
    case step_action::attend:
      attend(l, in);
      break;
    case step_action::close:
      close_layer(l, in);
      break;
    case step_action::final_norm: {
      const phase_range range(profile_phase::final_norm, in.set.rows);
      model.final_norm(x, final.view().first(in.set.rows));
      break;
    }
    default:
      throw std::logic_error("step_loop: an action of the host in a segment");
  }
}

layer_rows step_loop::impl::rows_of_layer(std::int32_t layer) const {
  const transformer::activations& a = acts[static_cast<std::size_t>(active_buffer)];
  const std::int32_t n = rows.rows;
  return {state,
          plan,
          layer,
          rows.set(limits.sequences),
          model.query(a, n),
          model.key(a, n),
          model.value(a, n)};
}

// Time spent here is selection, what a method adds to a plain forward; an observer's is not.
void step_loop::impl::decide_on_host(const layer_action& action) {
  const std::int32_t l = action.layer;
  switch (action.what) {
    case step_action::choose: {
      const phase_range range(profile_phase::selection, l);
      const stopwatch clock(totals.selection_seconds);
      method.keys->choose(rows_of_layer(l), cache.layer(l));
      break;
    }
    case step_action::show: {
      if (!backend.shows_resident()) {
        throw usage_error("what a layer computes can be looked at on the device cpu only, not on " +
                          backend.name());
      }
      if (most_views > 0) {
        throw usage_error("what a layer computes cannot be looked at with " + method.method +
                          ": its rows see keys by views");
      }
      select_keys(l);
      const layer_rows of = rows_of_layer(l);
      const float scale = 1.0F / std::sqrt(static_cast<float>(model.config().head_dim));
      observer->on_layer({state, plan, l, of.rows, of.q, of.k, of.v, cache.layer(l),
                          keys_of[static_cast<std::size_t>(l)].set, scale,
                          method.views.slot_positions ? method.views.slot_positions(plan, l, 0)
                                                      : std::vector<std::int32_t>{}});
      break;
    }
    case step_action::keep: {
      const phase_range range(profile_phase::selection, l);
      const stopwatch clock(totals.selection_seconds);
      method.cache->after_attention(rows_of_layer(l), cache);
      break;
    }
    case step_action::feature_layer: {
      const transformer::activations& a = acts[static_cast<std::size_t>(active_buffer)];
      const feature_work done =
          features->forward(l, state, plan, rows, a.x.view().first(rows.rows), a, cache.layer(l),
                            *method.keys, plan.arrays.kv_length);
      keys_of[static_cast<std::size_t>(l)] = {done.keys, {}, {}};
      const phase_range range(profile_phase::accounting, l);
      state.take_scored(choice_flops);
      const std::int32_t* begin = done.rows.row_begin;
      count_layer(l,
                  {done.rows, done.value_begin, begin, begin, done.value_begin, done.probe_begin},
                  false);
      break;
    }
    default:
      throw std::logic_error("step_loop: an action of the backend on the host");
  }
}

// ---- parts of a layer ---------------------------------------------------------------------------

layer_input step_loop::impl::input() {
  return {rows.set(limits.sequences), rows.token.as<std::int32_t>(),
          &acts[static_cast<std::size_t>(active_buffer)]};
}

// Rows that are gathered have been embedded, and rows.token stays as it was when they entered.
layer_input step_loop::impl::staged_input(std::int32_t padded, bool gather, bool is_staged) {
  const staged_rows to{staged.begin.as<std::int32_t>(),
                       staged.sequence.as<std::int32_t>(),
                       staged.position.as<std::int32_t>(),
                       rows.slots_differ ? staged.slot.as<std::int32_t>() : nullptr,
                       gather ? nullptr : rows.token.as<std::int32_t>(),
                       gather ? staged_kept.as<std::int32_t>() : nullptr};
  if (!is_staged) {
    backend.run(op::stage_rows{.rows = rows.set(limits.sequences),
                               .canvas = state.canvas(),
                               .own = own_tokens(),
                               .index = kept.as<std::int32_t>(),
                               .padded = padded,
                               .to = to});
  }
  return {{limits.sequences, padded, to.row_begin, to.sequence, to.position, to.slot},
          rows.token.as<std::int32_t>(),
          &acts[static_cast<std::size_t>(active_buffer)]};
}

void step_loop::impl::select_keys(std::int32_t layer) {
  const phase_range range(profile_phase::selection, layer);
  const stopwatch clock(totals.selection_seconds);
  layer_keys& keys = keys_of[static_cast<std::size_t>(layer)];
  if (most_views > 0) {
    keys = {};
    keys.set.kv_length = plan.arrays.kv_length;
    keys.set.key_begin = view_key_begin.as<std::int32_t>();
    keys.set.key_slot = view_slots.as<std::int32_t>();
    return;
  }
  keys = method.keys->select(state, plan, layer, plan.arrays.kv_length);
  if (method.keys->traits().chooses) return;
  if (keys.mass.data != nullptr || keys.set.tiles.keep != nullptr) {
    throw std::logic_error("step_loop: " + method.method +
                           " uses a key mass or a block mask and does not declare that it chooses");
  }
}

// Q, K and V, and the K/V into the cache.
void step_loop::impl::project(std::int32_t layer, const layer_input& in) {
  if (stores_at_once()) {
    const phase_range range(profile_phase::project, layer);
    model.project_and_store(layer, in.acts->x.view().first(in.set.rows), in.set, *in.acts,
                            cache.layer(layer));
    return;
  }
  {
    const phase_range range(profile_phase::project, layer);
    model.project(layer, in.acts->x.view().first(in.set.rows), in.set, *in.acts);
  }
  const phase_range range(profile_phase::cache_update, layer);
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

void step_loop::impl::attend(std::int32_t layer, const layer_input& in) {
  const phase_range range(profile_phase::attention, layer);
  const model_config& c = model.local();
  const float scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
  const tensor_view attended = in.acts->attention.view().first(in.set.rows);
  const layer_keys& keys = keys_of[static_cast<std::size_t>(layer)];
  row_set set = in.set;
  paged_kv pages = cache.layer(layer);
  if (most_views > 0) {  // a view is a sequence of its own
    set.sequences = most_views;
    set.row_begin = rows.views.begin.as<std::int32_t>();
    pages = cache.layer(layer, view_tables);
  }
  pages.most_pages = most_pages;
  backend.run(op::attention{
      set, model.query(*in.acts, in.set.rows), pages, keys.set, scale,
      make_view(attended.data, attended.type, {in.set.rows, c.heads, c.head_dim}), keys.mass});
}

// What comes behind the attention.
void step_loop::impl::close_layer(std::int32_t layer, const layer_input& in) {
  const tensor_view x = in.acts->x.view().first(in.set.rows);
  {
    const phase_range range(profile_phase::attention_output, layer);
    model.attention_output(layer, in.acts->attention.view().first(in.set.rows), x);
  }
  const phase_range range(profile_phase::feed_forward, layer);
  if (!partial) {
    model.feed_forward(layer, x, in.set.sequence);
    return;
  }
  const tensor_view some = part.x.view().first(updated.rows);
  backend.run(op::gather_rows{x, updated_index.as<std::int32_t>(), some});
  model.feed_forward(layer, some);
  backend.run(op::scatter_rows{some, updated_index.as<std::int32_t>(), x});
}

// Drops rows behind the K/V of a layer, and turns to the other activations; true when there are
// fewer. `kept` then lists those left, and the activations are still to be gathered.
bool step_loop::impl::narrow(std::int32_t layer) {
  const phase_range range(profile_phase::selection, layer);
  const stopwatch clock(totals.selection_seconds);
  const layer_rows of = rows_of_layer(layer);
  if (!method.rows->narrow(state, plan, layer, of.q, of.k, rows, kept)) return false;
  if (rows.slots_differ) throw std::logic_error("step_loop: narrow() of rows with slots");
  active_buffer = 1 - active_buffer;
  return true;
}

// The `count` rows that `index` names become those of the active activations.
void step_loop::impl::gather_kept(const std::int32_t* index, std::int32_t count) {
  const transformer::activations& from = acts[static_cast<std::size_t>(1 - active_buffer)];
  const transformer::activations& to = acts[static_cast<std::size_t>(active_buffer)];
  backend.run(op::gather_rows{from.x, index, to.x.view().first(count)});
  backend.run(op::gather_rows{from.qkv, index, to.qkv.view().first(count)});
}

// ---- captured -----------------------------------------------------------------------------------

// A listener of phases sees every kernel launched by itself, so that it can tell phases apart. A
// prefill comes once, with a number of rows that will hardly come again.
bool step_loop::impl::can_capture(profile_phase kind) const {
  return kind != profile_phase::prefill && backend.graph_bucket(rows.rows) > 0 &&
         program->is_capturable() && current_listener() == nullptr;
}

void step_loop::impl::issue_captured() {
  bool shrank = false, is_staged = false;
  for (const segment& actions : program->segments()) {
    if (actions.front().what == step_action::narrow) {
      shrank = narrow(actions.front().layer);
      is_staged = is_staged && !shrank;
      continue;
    }
    run_captured(actions, shrank, is_staged);
    is_staged = true;
    const phase_range range(profile_phase::accounting, actions.front().layer);
    for (const layer_action& action : actions) {
      if (action.what != step_action::close) continue;
      state.take_scored(choice_flops);
      count_layer(action.layer);
    }
  }
}

// The rows are filled up with padding rows to the next number for which graphs are made, and the
// graph is known by everything that its launches are given: actions, rows, addresses, masks. `is_staged`: the
// segment before left the same rows.
void step_loop::impl::run_captured(const segment& actions, bool shrank, bool is_staged) {
  const std::int32_t padded = std::min(backend.graph_bucket(rows.rows), model.max_rows());
  const layer_input in = staged_input(padded, shrank, is_staged);
  std::vector<std::uint64_t> key{
      static_cast<std::uint64_t>(actions.data() - program->actions().data()),
      shrank ? 1U : 0U,
      static_cast<std::uint64_t>(padded),
      static_cast<std::uint64_t>(active_buffer),
      rows.slots_differ ? 1U : 0U,
      static_cast<std::uint64_t>(most_pages)};
  for (const layer_action& action : actions) {
    if (action.what != step_action::attend) continue;
    select_keys(action.layer);
    const key_set& keys = keys_of[static_cast<std::size_t>(action.layer)].set;
    for (const std::int32_t* array :
         {keys.kv_length, keys.key_begin, keys.key_slot, cache.layer(action.layer).page_table}) {
      key.push_back(reinterpret_cast<std::uintptr_t>(array));
    }
    key.push_back(static_cast<std::uint64_t>(keys.mask));
    key.push_back(static_cast<std::uint64_t>(keys.block));
  }
  const phase_range range(profile_phase::recorded, rows.rows);
  graphs.run(key, [&] {
    for (const layer_action& action : actions) {
      if (action.what != step_action::gather) {
        issue(action, in);
      } else if (shrank) {
        const phase_range gathering(profile_phase::selection, action.layer);
        gather_kept(staged_kept.as<std::int32_t>(), padded);
      }
    }
  });
}

}  // namespace unmask
