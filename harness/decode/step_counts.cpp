// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a step cost: counted by the loop, never by a method.
#include <algorithm>

#include "harness/decode/phase_costs.h"
#include "harness/decode/step_loop_impl.h"

namespace unmask {

// Rows entering the layer cost its projections; rows leaving it (after narrowing) cost attention
// and output projection, and feed-forward unless the method says that they skip it. Keys are those
// the mask really admits.
void step_loop::impl::count_layer(std::int32_t layer, const key_set& keys, bool first_layer) {
  layer_counts total;
  const row_cost cost = model.cost(layer);
  const double per_key = 4.0 * model.config().heads * model.config().head_dim;
  const std::int32_t* begin = rows.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int64_t n = begin[s + 1] - begin[s];
    const std::int64_t entering = rows_before[static_cast<std::size_t>(s)];
    rows_before[static_cast<std::size_t>(s)] = n;
    if (first_layer) {
      const std::int64_t in_rows = entering;
      ++c.forwards;
      c.prefill_forwards += step.what == phase::prefill;
      c.commit_forwards += step.what == phase::commit;
      c.denoise_steps += step.candidate_last > step.candidate_first;
      c.rows += in_rows;
      if (step.what != phase::prefill) c.decode_rows += in_rows;
    }
    double seen = 0, busiest = 0;
    for (std::int32_t r = begin[s]; r < begin[s + 1]; ++r) {
      const double of_row =
          method.keys->mean_keys_of_row(state, keys, s, rows.position.as<std::int32_t>()[r]);
      seen += of_row;
      busiest = std::max(busiest, of_row);
    }
    const std::int32_t* fed_begin = partial ? updated.begin.as<std::int32_t>() : begin;
    const std::int64_t fed = fed_begin[s + 1] - fed_begin[s];
    const double selection = method.keys->selection_flops(state, s);
    c.layer_rows += n;
    c.feed_forward_rows += fed;
    c.keys_seen += seen;
    c.flops += static_cast<double>(entering) * cost.qkv_flops +
               static_cast<double>(n) * cost.output_flops +
               static_cast<double>(fed) * cost.feed_forward_flops + seen * per_key + selection;
    c.selection_flops += selection;
    total.valued += static_cast<double>(entering);
    total.projected += static_cast<double>(entering);
    total.written += static_cast<double>(partial ? fed : entering);
    total.attending += static_cast<double>(n);
    total.fed += static_cast<double>(fed);
    total.keys_seen += seen;
    total.busiest_keys += busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type), stores_at_once());
}

void step_loop::impl::count_dry() {
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    sequence_counters& c = state.at(s).counters;
    const std::int64_t n = rows_before[static_cast<std::size_t>(s)];
    ++c.forwards;
    c.prefill_forwards += step.what == phase::prefill;
    c.commit_forwards += step.what == phase::commit;
    c.denoise_steps += step.candidate_last > step.candidate_first;
    c.rows += n;
    if (step.what != phase::prefill) c.decode_rows += n;
    c.layer_rows += n * model.config().layers;
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
    double seen = 0, busiest = 0;
    for (std::int32_t r = first; r < last; ++r) {
      const double of_row =
          method.keys->mean_keys_of_row(state, work.keys, s, work.rows.position[r]);
      seen += of_row;
      busiest = std::max(busiest, of_row);
    }
    // A cosine distance is three dot products.
    const double compared = work.probe_begin[s + 1] - work.probe_begin[s];
    const double selection =
        method.keys->selection_flops(state, s) + compared * 6.0 * m.kv_heads * m.head_dim;
    c.layer_rows += last - first;
    c.feed_forward_rows += last - first;
    c.keys_seen += seen;
    c.selection_flops += selection;
    const std::int32_t valued = work.value_begin[s + 1] - work.value_begin[s];
    c.flops += valued * cost.value_flops + (last - first) * per_row + seen * per_key + selection;
    total.valued += valued;
    total.written += valued;
    total.projected += last - first;
    total.attending += last - first;
    total.fed += last - first;
    total.keys_seen += seen;
    total.busiest_keys += busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type), false);
}

}  // namespace unmask
