// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a step cost: counted by the loop from what its program issued, never by a method.
#include <algorithm>

#include "harness/decode/phase_costs.h"
#include "harness/decode/step_loop_impl.h"

namespace unmask {
namespace {

// Keys one row at `position` sees: those that the mask admits, mean over the heads.
double keys_of_row(const layer_keys& keys, std::int32_t s, std::int32_t position) {
  const key_set& set = keys.set;
  if (set.tiles.keep != nullptr && set.tiles.applies[s] != 0) {
    return keys.keys_of_blocks.row<float>(s)[position / set.tiles.size];
  }
  const bool listed = set.key_begin != nullptr;
  const std::int32_t all = listed ? set.key_begin[s + 1] - set.key_begin[s] : set.kv_length[s];
  if (set.mask == mask_kind::full) return all;
  const std::int32_t end =
      set.mask == mask_kind::causal ? position + 1 : (position / set.block + 1) * set.block;
  if (!listed || end >= set.kv_length[s]) return std::min(all, end);
  // Slots equal positions under such a mask, and lists ascend.
  const std::int32_t* first = set.key_slot + set.key_begin[s];
  return static_cast<double>(std::lower_bound(first, first + all, end) - first);
}

}  // namespace

// Of a method with views. Hidden are those of the positions in play that a view leaves out.
step_loop::impl::row_keys step_loop::impl::keys_seen_by_views(std::int32_t s) const {
  const row_views& views = rows.views;
  const std::int32_t *row = views.begin.as<std::int32_t>(), *of = views.sequence.as<std::int32_t>(),
                     *key = view_key_begin.as<std::int32_t>();
  const double shown = plan.of[static_cast<std::size_t>(s)].last;
  row_keys seen;
  for (std::int32_t v = 0; v < views.count; ++v) {
    const double n = row[v + 1] - row[v], keys = key[v + 1] - key[v];
    if (of[v] != s || n == 0) continue;
    seen.sum += n * keys;
    seen.busiest = std::max(seen.busiest, keys);
    seen.hidden += n * std::max(shown - keys, 0.0);
  }
  return seen;
}

step_loop::impl::row_keys step_loop::impl::keys_seen(const row_set& set, const layer_keys& keys,
                                                     std::int32_t s) const {
  if (most_views > 0) return keys_seen_by_views(s);
  row_keys seen;
  layer_keys shown;
  shown.set.kv_length = plan.arrays.kv_length;
  shown.set.mask = model.config().attention;
  shown.set.block = std::max(model.config().block, 1);
  const std::int32_t n = set.row_begin[s + 1] - set.row_begin[s];
  if (keys.set.mask == mask_kind::full && keys.set.tiles.keep == nullptr &&
      shown.set.mask == mask_kind::full) {  // all rows alike: the list may be the operations' own
    const double all = keys_of_row(keys, s, 0);
    if (n > 0) seen.busiest = all;
    seen.sum = n * all;
    seen.hidden = n * std::max(keys_of_row(shown, s, 0) - all, 0.0);
    return seen;
  }
  for (std::int32_t r = set.row_begin[s]; r < set.row_begin[s + 1]; ++r) {
    const double of_row = keys_of_row(keys, s, set.position[r]);
    seen.sum += of_row;
    seen.busiest = std::max(seen.busiest, of_row);
    seen.hidden += std::max(keys_of_row(shown, s, set.position[r]) - of_row, 0.0);
  }
  return seen;
}

bool step_loop::impl::is_late(std::int32_t s, std::int32_t layer) const {
  return layer >= method.rows->traits().first_late_layer() &&
         plan.of[static_cast<std::size_t>(s)].what != forward_kind::prefill;
}

// Once per forward, for every sequence that took part with the rows in `entered`.
void step_loop::impl::count_forward() {
  const std::int32_t* begin = entered.begin.as<std::int32_t>();
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    const sequence_step& step = plan.of[static_cast<std::size_t>(s)];
    if (!step.active) continue;
    const std::int64_t n = begin[s + 1] - begin[s];
    sequence_counters& c = state.at(s).counters;
    ++c.forwards;
    c.prefill_forwards += step.what == forward_kind::prefill;
    c.commit_forwards += step.what == forward_kind::commit;
    c.denoise_steps += step.candidate_last > step.candidate_first;
    c.rows += n;
    c.rows_skipped += std::max<std::int64_t>(step.last - step.first - n, 0);
    if (limits.dry) c.layer_rows += n * model.config().layers;
    if (step.what == forward_kind::prefill) continue;
    c.decode_rows += n;
    c.kv_reused += std::max<std::int64_t>(step.kv_length - n, 0);
  }
}

// A layer whose rows entered together, and perhaps narrowed behind their K/V.
void step_loop::impl::count_layer(std::int32_t layer) {
  const row_set set = rows.set(limits.sequences);
  const std::int32_t* fed = partial ? updated.begin.as<std::int32_t>() : set.row_begin;
  count_layer(layer,
              {set, layer_begin.data(), layer_begin.data(), fed, partial ? fed : layer_begin.data(),
               nullptr},
              stores_at_once());
  layer_begin.assign(set.row_begin, set.row_begin + limits.sequences + 1);
}

// A listener is told inside the layer, so it has to be waited for.
void step_loop::impl::count_layer_in_time(std::int32_t layer) {
  state.take_scored(choice_flops);
  const bool later = keys_of[static_cast<std::size_t>(layer)].counted_later;
  if (later && current_listener() == nullptr) {
    uncounted.emplace_back(layer, choice_flops);
    return;
  }
  if (later) backend.synchronize();
  count_layer(layer);
}

void step_loop::impl::count_noted_layers() {
  for (auto& [layer, flops] : uncounted) {
    choice_flops = std::move(flops);
    count_layer(layer);
  }
  uncounted.clear();
}

void step_loop::impl::count_layer(std::int32_t layer, const layer_work& work, bool stored_at_once) {
  const row_cost cost = model.cost(layer);
  const model_config& m = model.config();
  const double per_key = 4.0 * m.heads * m.head_dim;
  layer_counts total;
  for (std::int32_t s = 0; s < limits.sequences; ++s) {
    if (!plan.of[static_cast<std::size_t>(s)].active) continue;
    const auto count = [s](const std::int32_t* begin) -> std::int64_t {
      return begin != nullptr ? begin[s + 1] - begin[s] : 0;
    };
    const std::int64_t attending = count(work.rows.row_begin), fed = count(work.fed);
    const auto valued = static_cast<double>(count(work.valued)),
               projected = static_cast<double>(count(work.projected));
    const row_keys seen = keys_seen(work.rows, keys_of[static_cast<std::size_t>(layer)], s);
    // A cosine distance is three dot products.
    const double selection =
        choice_flops[static_cast<std::size_t>(s)] +
        static_cast<double>(count(work.compared)) * 6.0 * m.kv_heads * m.head_dim;
    sequence_counters& c = state.at(s).counters;
    c.layer_rows += attending;
    c.late_layer_rows += is_late(s, layer) ? attending : 0;
    c.feed_forward_rows += fed;
    c.rows_dropped += count(work.projected) - attending;
    // Rows that keep the stored outputs of this layer.
    if (work.compared != nullptr) c.rows_skipped += count(layer_begin.data()) - attending;
    c.keys_seen += seen.sum;
    c.keys_hidden += seen.hidden;
    c.selection_flops += selection;
    c.flops += valued * cost.value_flops + projected * (cost.qkv_flops - cost.value_flops) +
               static_cast<double>(attending) * cost.output_flops +
               static_cast<double>(fed) * cost.feed_forward_flops + seen.sum * per_key + selection;
    total.valued += valued;
    total.projected += projected;
    total.written += static_cast<double>(count(work.written));
    total.attending += static_cast<double>(attending);
    total.fed += static_cast<double>(fed);
    total.keys_seen += seen.sum;
    total.busiest_keys += seen.busiest;
    total.selection_flops += selection;
  }
  report_layer(model, layer, total, size_of(cache.layer(layer).keys.type), stored_at_once);
}

}  // namespace unmask
