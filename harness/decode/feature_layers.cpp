// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/decode/feature_layers.h"

#include <algorithm>
#include <cmath>

#include "harness/decode/kernels/features.h"
#include "harness/profile/phases.h"
#include "kernels/attention.h"
#include "kernels/model_core.h"
#include "kernels/rows.h"

namespace unmask {
namespace {

// Stored outputs have the shape of K/V with one head as wide as the model.
model_config one_wide_head(model_config c, std::int32_t first_layer) {
  c.layers = std::max(1, c.layers - first_layer);
  c.kv_heads = 1;
  c.head_dim = c.hidden;
  return c;
}

// [n, D] as [n, 1, D].
tensor_view as_head(tensor_view v) {
  v.rank = 3;
  v.shape = {v.shape[0], 1, v.shape[1], 0};
  return v;
}

}  // namespace

feature_layers::feature_layers(const transformer& model, const feature_policy& policy,
                               std::int32_t sequences, std::int32_t max_length)
    : model_(model),
      policy_(policy),
      outputs_(model.backend(), one_wide_head(model.config(), policy.settings().first_layer),
               {max_length, 0}, sequences, 0,
               dtype::f32) {  // added to the residual stream: float32 whatever K/V are
  model.require_split_projection();
  const backend& backend = model.backend();
  const model_config& c = model.local();
  const std::int64_t n = model.max_rows(), s = sequences;
  const auto ints = [&](std::int64_t count) {
    return backend.allocate(dtype::i32, {count}, memory_use::host_visible);
  };
  for (row_lists* list : {&values_, &probes_}) {
    list->begin = ints(s + 1);
    list->sequence = ints(n);
    list->position = ints(n);
  }
  chosen_.begin = ints(s + 1);
  chosen_begin_ = backend.allocate(dtype::i32, {s + 1});
  for (tensor* t : {&chosen_.sequence, &chosen_.position, &index_}) {
    *t = backend.allocate(dtype::i32, {n});
  }
  for (tensor* t : {&first_, &value_first_, &value_last_, &probe_first_, &length_, &moved_,
                    &due_first_, &due_last_}) {
    *t = ints(s);
  }
  flags_ = backend.allocate(dtype::u8, {s, max_length});
  picked_ = backend.allocate(dtype::f32, {n, c.hidden});
  branch_ = backend.allocate(dtype::f32, {n, c.hidden});
  new_value_ = backend.allocate(model.input_type(), {n, c.kv_heads, c.head_dim});
  old_value_ = backend.allocate(dtype::f32, {n, c.kv_heads, c.head_dim});
  distance_ = backend.allocate(dtype::f32, {n});
}

// What each sequence asks for, as ranges of positions, and how many rows that makes; true when that
// is every row of all.
bool feature_layers::choose(std::int32_t layer, const batch& b, const step_choice& plan) {
  bool everything = true;
  std::int32_t* begin = chosen_.begin.as<std::int32_t>();
  begin[0] = 0;
  for (std::int32_t s = 0; s < b.capacity(); ++s) {
    const bool active = plan.of[static_cast<std::size_t>(s)].active;
    const sequence& q = b.at(s);
    const std::int32_t prompt = active ? q.prompt_length : 0, length = active ? q.length : 0;
    const layer_refresh r = active ? policy_.refresh(b, layer, s) : layer_refresh{};
    const bool probe = !r.response && r.probe;
    value_first_.as<std::int32_t>()[s] = r.prompt ? 0 : prompt;
    value_last_.as<std::int32_t>()[s] = r.response || probe ? length : prompt;
    probe_first_.as<std::int32_t>()[s] = probe ? prompt : length;
    length_.as<std::int32_t>()[s] = length;
    moved_.as<std::int32_t>()[s] = probe ? r.moved : 0;
    const std::int32_t due_first = r.prompt ? 0 : prompt, due_last = r.response ? length : prompt;
    due_first_.as<std::int32_t>()[s] = due_first;
    due_last_.as<std::int32_t>()[s] = due_last;
    begin[s + 1] =
        begin[s] + due_last - due_first + (probe ? std::min(r.moved, length - prompt) : 0);
    everything = everything && r.prompt && r.response;
  }
  chosen_.rows = begin[b.capacity()];
  return everything;
}

// V of the rows that need it, K and Q of the chosen rows; fills values_, probes_ and chosen_.
void feature_layers::project(std::int32_t layer, const batch& b, const row_set& rows,
                             const tensor_view& x, const transformer::activations& acts,
                             const paged_kv& pages) {
  const backend& backend = model_.backend();
  const std::int32_t sequences = b.capacity();
  const auto list = [&](row_lists& to, const tensor_view& flags, const tensor& first,
                        const tensor& last) {
    to.rows =
        backend.run(op::compact{sequences, flags, 1, first.as<std::int32_t>(),
                                last.as<std::int32_t>(), to.begin.as<std::int32_t>(),
                                to.position.as<std::int32_t>(), to.sequence.as<std::int32_t>()});
    return to.set(sequences);
  };
  const auto pick = [&](const row_set& some) {
    backend.run(op::find_rows{rows, some, index_.as<std::int32_t>()});
    const tensor_view picked = picked_.view().first(some.rows);
    backend.run(op::gather_rows{x, index_.as<std::int32_t>(), picked});
    return picked;
  };
  const row_set values = list(values_, {}, value_first_, value_last_);
  const row_set probes = list(probes_, {}, probe_first_, length_);
  const auto flag = [&](const tensor& first, const tensor& last, std::uint8_t value) {
    backend.run(op::fill_flags{sequences, first.as<std::int32_t>(), last.as<std::int32_t>(), value,
                               flags_});
  };
  flag(first_, length_, 0);
  flag(due_first_, due_last_, 1);
  if (values.rows > 0) {
    {
      const phase_range range(profile_phase::project, layer);
      model_.project_value(layer, pick(values), acts);
    }
    const tensor_view value = model_.value(acts, values.rows);
    if (probes.rows > 0) {
      const phase_range range(profile_phase::selection, layer);
      const tensor_view fresh = new_value_.view().first(probes.rows);
      const tensor_view stored = old_value_.view().first(probes.rows);
      backend.run(op::find_rows{values, probes, index_.as<std::int32_t>()});
      backend.run(op::gather_rows{value, index_.as<std::int32_t>(), fresh});
      backend.run(op::kv_read{probes, pages, {}, stored, false});
      backend.run(op::row_distance{fresh, stored, distance_.as<float>(), policy_.settings().same,
                                   model_.counts_values()});
      backend.run(op::mark_top{probes, distance_.as<float>(), moved_.as<std::int32_t>(), flags_});
    }
    const phase_range range(profile_phase::cache_update, layer);
    if (policy_.settings().stores_all) backend.run(op::kv_write{values, {}, value, pages});
  }
  if (chosen_.rows == 0) return;
  // Their number is known: so many as are asked for move most.
  backend.run(op::list_flags{sequences, flags_, 1, first_.as<std::int32_t>(),
                             length_.as<std::int32_t>(), chosen_begin_.as<std::int32_t>(),
                             chosen_.position.as<std::int32_t>(),
                             chosen_.sequence.as<std::int32_t>()});
  const row_set chosen = chosen_.set(sequences);
  {
    const phase_range range(profile_phase::project, layer);
    model_.project_query_key(layer, pick(chosen), chosen, acts);
  }
  const phase_range range(profile_phase::cache_update, layer);
  tensor_view moved;  // V of the chosen rows, if it is not stored yet
  if (!policy_.settings().stores_all) {
    moved = new_value_.view().first(chosen.rows);
    backend.run(op::find_rows{values, chosen, index_.as<std::int32_t>()});
    backend.run(op::gather_rows{model_.value(acts, values.rows), index_.as<std::int32_t>(), moved});
  }
  backend.run(op::kv_write{chosen, model_.key(acts, chosen.rows), moved, pages});
}

feature_work feature_layers::forward(std::int32_t layer, const batch& b, const step_choice& plan,
                                     const row_lists& rows, const tensor_view& x,
                                     const transformer::activations& acts, const paged_kv& pages,
                                     const key_policy& keys, const std::int32_t* kv_length) {
  const backend& backend = model_.backend();
  const model_config& c = model_.local();
  const row_set all = rows.set(b.capacity());
  bool everything = false;
  {
    const phase_range range(profile_phase::selection, layer);
    everything = choose(layer, b, plan);
  }
  feature_work work;
  if (everything) {
    {
      const phase_range range(profile_phase::project, layer);
      model_.project(layer, x, all, acts);
    }
    const phase_range range(profile_phase::cache_update, layer);
    backend.run(op::kv_write{all, model_.key(acts, all.rows), model_.value(acts, all.rows), pages});
    probes_.rows = 0;
    std::fill_n(probes_.begin.as<std::int32_t>(), b.capacity() + 1, 0);
    work.rows = all;
    work.value_begin = all.row_begin;
  } else {
    project(layer, b, all, x, acts, pages);
    work.rows = chosen_.set(b.capacity());
    work.value_begin = values_.begin.as<std::int32_t>();
  }
  work.probe_begin = probes_.begin.as<std::int32_t>();

  const std::int32_t n = work.rows.rows;
  const paged_kv outputs = outputs_.layer(layer - first_layer());
  const tensor_view branch = branch_.view().first(n), picked = picked_.view().first(n);
  const tensor_view q = model_.query(acts, n);
  {
    const phase_range range(profile_phase::selection, layer);
    work.keys = keys.select(b, plan, layer, kv_length).set;
  }
  if (n > 0) {
    const tensor_view attended = acts.attention.view().first(n);
    const float scale = 1.0F / std::sqrt(static_cast<float>(c.head_dim));
    {
      const phase_range range(profile_phase::attention, layer);
      backend.run(op::attention{work.rows,
                                q,
                                pages,
                                work.keys,
                                scale,
                                make_view(attended.data, attended.type, {n, c.heads, c.head_dim}),
                                {}});
    }
    const phase_range range(profile_phase::attention_output, layer);
    model_.attention_output(layer, attended, branch, false);
  }
  {
    const phase_range range(profile_phase::cache_update, layer);
    if (n > 0) backend.run(op::kv_write{work.rows, as_head(branch), {}, outputs});
    backend.run(op::kv_read{all, outputs, as_head(x), {}, true});
  }
  if (n > 0) {
    const phase_range range(profile_phase::feed_forward, layer);
    if (!everything) {
      backend.run(op::find_rows{all, work.rows, index_.as<std::int32_t>()});
      backend.run(op::gather_rows{x, index_.as<std::int32_t>(), picked});
    }
    model_.feed_forward_branch(layer, everything ? x : picked, branch);
  }
  const phase_range range(profile_phase::cache_update, layer);
  if (n > 0) backend.run(op::kv_write{work.rows, {}, as_head(branch), outputs});
  backend.run(op::kv_read{all, outputs, {}, as_head(x), true});
  return work;
}

}  // namespace unmask
