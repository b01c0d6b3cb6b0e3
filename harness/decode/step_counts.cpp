// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a step cost: counted by the loop, never by a method.
#include <algorithm>

#include "harness/decode/phase_costs.h"
#include "harness/decode/step_loop_impl.h"

namespace unmask {

// Keys that the rows of sequence s see.
step_loop::impl::row_keys step_loop::impl::keys_seen(const row_set& set, const key_set& keys,
                                                     std::int32_t s) const {
  row_keys seen;
  key_set shown;
  shown.kv_length = plan.arrays.kv_length;
  shown.mask = model.config().attention;
  shown.block = std::max(model.config().block, 1);
  for (std::int32_t r = set.row_begin[s]; r < set.row_begin[s + 1]; ++r) {
    const double of_row = method.keys->mean_keys_of_row(state, keys, s, set.position[r]);
    seen.sum += of_row;
    seen.busiest = std::max(seen.busiest, of_row);
    const std::int64_t of_mask =
        method.keys->key_policy::keys_of_row(state, shown, s, set.position[r]);
    seen.hidden += std::max(static_cast<double>(of_mask) - of_row, 0.0);
  }
  return seen;
}

// FOCUS counts from where its eviction acts on, outside prefill (Table 5).
bool step_loop::impl::is_late(std::int32_t s, std::int32_t layer) const {
  return layer >= first_late_layer && plan.of[static_cast<std::size_t>(s)].what != phase::prefill;
}

// A forward that sequence s takes part in with so many rows.
void step_loop::impl::count_forward(std::int32_t s, std::int64_t entering) {
  const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
  sequence_counters& c = state.at(s).counters;
  ++c.forwards;
  c.prefill_forwards += step.what == phase::prefill;
  c.commit_forwards += step.what == phase::commit;
  c.denoise_steps += step.candidate_last > step.candidate_first;
  c.rows += entering;
  c.rows_skipped += std::max<std::int64_t>(step.last - step.first - entering, 0);
  if (step.what == phase::prefill) return;
  c.decode_rows += entering;
  c.kv_reused += std::max<std::int64_t>(step.kv_length - entering, 0);
}

// Rows entering the layer cost its projections; rows leaving it (after narrowing) cost attention
// and output projection, and feed-forward unless the method says that they skip it. Keys are those
// the mask really admits.
void step_loop::impl::count_layer(std::int32_t layer, const key_set& keys, bool first_layer) {
  layer_counts total;
  const row_cost cost = model.cost(layer);
  const double per_key = 4.0 * model.config().heads * model.config().head_dim;
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int64_t n = begin[s + 1] - begin[s];
    const std::int64_t entering = rows_before[static_cast<std::size_t>(s)];
    rows_before[static_cast<std::size_t>(s)] = n;
    if (first_layer) count_forward(s, entering);
    const row_keys seen = keys_seen(rows.set(limits.sequences), keys, s);
    const std::int32_t* fed_begin = partial ? updated.begin.as<std::int32_t>() : begin;
    const std::int64_t fed = fed_begin[s + 1] - fed_begin[s];
    const double selection = method.keys->selection_flops(state, s);
    c.layer_rows += n;
    c.late_layer_rows += is_late(s, layer) ? n : 0;
    c.feed_forward_rows += fed;
    c.rows_dropped += entering - n;
    c.keys_seen += seen.sum;
    c.keys_hidden += seen.hidden;
    c.flops += static_cast<double>(entering) * cost.qkv_flops +
               static_cast<double>(n) * cost.output_flops +
               static_cast<double>(fed) * cost.feed_forward_flops + seen.sum * per_key + selection;
    c.selection_flops += selection;
    total.valued += static_cast<double>(entering);
    total.projected += static_cast<double>(entering);
    total.written += static_cast<double>(partial ? fed : entering);
    total.attending += static_cast<double>(n);
    total.fed += static_cast<double>(fed);
    total.keys_seen += seen.sum;
    total.busiest_keys += seen.busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type), stores_at_once());
}

void step_loop::impl::count_dry() {
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    const std::int64_t n = rows_before[static_cast<std::size_t>(s)];
    count_forward(s, n);
    state.at(s).counters.layer_rows += n * model.config().layers;
  }
}

// The same for a layer that computed a part of its rows: V of some, everything of fewer.
void step_loop::impl::count_features(std::int32_t layer, const feature_work& work) {
  const row_cost cost = model.cost(layer);
  const model_config& m = model.config();
  const double per_key = 4.0 * m.heads * m.head_dim;
  const double per_row =
      cost.qkv_flops - cost.value_flops + cost.output_flops + cost.feed_forward_flops;
  layer_counts total;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int32_t first = work.rows.row_begin[s], last = work.rows.row_begin[s + 1];
    const row_keys seen = keys_seen(work.rows, work.keys, s);
    // A cosine distance is three dot products.
    const double compared = work.probe_begin[s + 1] - work.probe_begin[s];
    const double selection =
        method.keys->selection_flops(state, s) + compared * 6.0 * m.kv_heads * m.head_dim;
    c.layer_rows += last - first;
    c.late_layer_rows += is_late(s, layer) ? last - first : 0;
    c.feed_forward_rows += last - first;
    c.keys_seen += seen.sum;
    c.keys_hidden += seen.hidden;
    c.rows_skipped += rows_before[static_cast<std::size_t>(s)] - (last - first);
    c.selection_flops += selection;
    const std::int32_t valued = work.value_begin[s + 1] - work.value_begin[s];
    c.flops +=
        valued * cost.value_flops + (last - first) * per_row + seen.sum * per_key + selection;
    total.valued += valued;
    total.written += valued;
    total.projected += last - first;
    total.attending += last - first;
    total.fed += last - first;
    total.keys_seen += seen.sum;
    total.busiest_keys += seen.busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type), false);
}

}  // namespace unmask
