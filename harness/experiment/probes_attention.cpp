// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Attention maps and sinks. A sink of a layer is a key among the sink_share with the largest
// attention, averaged over the rows and heads of a step.
#include <algorithm>
#include <cctype>
#include <functional>

#include <nlohmann/json.hpp>

#include "harness/experiment/probes.h"
#include "kernels/reference/backend.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

// Attention of every row to every key of the only sequence, averaged over heads.
struct attention_map {
  std::vector<std::int32_t> slot, position;  // of each column; positions ascend
  std::int32_t rows = 0;
  std::vector<float> weight;  // [rows, slots]
};

std::vector<std::int32_t> listed_slots(const key_set& keys) {
  std::vector<std::int32_t> slots;
  if (keys.key_begin) {
    slots.assign(keys.key_slot + keys.key_begin[0], keys.key_slot + keys.key_begin[1]);
    std::sort(slots.begin(), slots.end());
  } else {
    for (std::int32_t slot = 0; slot < keys.kv_length[0]; ++slot) slots.push_back(slot);
  }
  return slots;
}

attention_map attention_of(const layer_view& layer, const slot_map& slots) {
  attention_map map;
  map.slot = listed_slots(layer.keys);
  std::ranges::stable_sort(map.slot, {}, [&](std::int32_t slot) { return slots.position(slot); });
  for (const std::int32_t slot : map.slot) map.position.push_back(slots.position(slot));
  map.rows = layer.rows.rows;
  const std::size_t columns = map.slot.size();
  map.weight.assign(static_cast<std::size_t>(map.rows) * columns, 0.0F);
  const std::int64_t heads = layer.q.shape[1], kv_heads = layer.k.shape[1], dim = layer.q.shape[2];
  std::vector<float> key(columns * static_cast<std::size_t>(dim)), some;
  std::vector<std::size_t> admitted;
  for (std::int64_t g = 0; g < kv_heads; ++g) {
    for (std::size_t j = 0; j < columns; ++j) {
      const std::int32_t slot = map.slot[j];
      const std::int32_t page = layer.cache.page_table[slot / kv_page_size];
      const float* from =
          layer.cache.keys.row<float>(page) + ((slot % kv_page_size) * kv_heads + g) * dim;
      std::copy_n(from, dim, key.begin() + static_cast<std::int64_t>(j) * dim);
    }
    for (std::int32_t r = 0; r < map.rows; ++r) {
      for (std::int64_t h = g * (heads / kv_heads); h < (g + 1) * (heads / kv_heads); ++h) {
        admitted.clear();
        some.clear();
        for (std::size_t j = 0; j < columns; ++j) {
          const std::int32_t row_position = layer.rows.position[r];
          if (!reference::admits(layer.keys, row_position, map.slot[j]) ||
              !reference::keeps(layer.keys.tiles, heads, 0, h, row_position, map.slot[j])) {
            continue;
          }
          admitted.push_back(j);
          const auto at = key.begin() + static_cast<std::int64_t>(j) * dim;
          some.insert(some.end(), at, at + dim);
        }
        const std::span<const float> q(layer.q.row<float>(r) + h * dim,
                                       static_cast<std::size_t>(dim));
        const std::vector<float> w = probe_maths::attention_row(q, some, layer.scale);
        for (std::size_t i = 0; i < w.size(); ++i) {
          map.weight[static_cast<std::size_t>(r) * columns + admitted[i]] +=
              w[i] / static_cast<float>(heads);
        }
      }
    }
  }
  return map;
}

class attention_probe final : public probe {
 public:
  using probe::probe;
  bool wants_layers() const override { return true; }

  void on_layer(const layer_view& layer) override {
    slots_.see(layer);
    const bool look = step_ % settings_.every == 0;
    if (!look && step_ % settings_.every != 1) return;  // the step after a look: what persists
    const attention_map map = attention_of(layer, slots_);
    if (map.rows == 0 || map.slot.empty()) return;
    std::vector<double> mass(map.slot.size(), 0.0);
    for (std::size_t i = 0; i < map.weight.size(); ++i) {
      mass[i % mass.size()] += map.weight[i] / static_cast<double>(map.rows);
    }
    see_outside(layer, map, mass);
    if (!look) return;
    see_spread(layer, map, mass);
    const auto n = static_cast<std::int32_t>(
        std::max<long>(1, std::lround(settings_.sink_share * static_cast<double>(mass.size()))));
    const std::vector<std::int32_t> top = probe_maths::largest(mass, n);
    double held = 0;
    std::vector<std::int32_t> sinks;
    for (const std::int32_t j : top) {
      held += mass[static_cast<std::size_t>(j)];
      sinks.push_back(map.position[static_cast<std::size_t>(j)]);
    }
    add_at(sink_mass_, static_cast<std::size_t>(layer.layer), held);
    see_pivots(layer, sinks);
    sinks_.push_back(sinks);
    if (requests_ == 1) draw(layer, map, sinks);
  }

  void on_step(const step_view&) override {
    ++step_;
    outside_before_.swap(outside_);
    outside_.clear();
    if (sinks_.empty()) return;
    ++looks_;
    const std::size_t layers = sinks_.size();
    if (overlap_.empty()) {
      overlap_.assign(layers, std::vector<mean_by_item>(layers));
      over_time_.resize(layers);
    }
    for (std::size_t a = 0; a < layers; ++a) {
      for (std::size_t b = 0; b < layers; ++b) {
        overlap_[a][b].add(probe_maths::overlap(sinks_[a], sinks_[b]), requests_);
      }
      if (a < before_.size()) {
        over_time_[a].add(probe_maths::overlap(before_[a], sinks_[a]), requests_);
      }
    }
    before_.swap(sinks_);
    sinks_.clear();
  }

 private:
  void begin_request(const batch&) override {
    step_ = 0;
    before_.clear();
    outside_.clear();
    outside_before_.clear();
    slots_.begin();
  }

  void report(json& out) const override {
    json overlaps = json::array(), ranges = json::array(), maps = json::array();
    for (const std::vector<mean_by_item>& row : overlap_) {
      overlaps.push_back(values_of(row));
      ranges.push_back(intervals_of(row));
    }
    for (const auto* list : {&first_, &last_}) {
      for (const auto& [layer, d] : *list) {
        if (list == &last_ && first_.at(layer).step == d.step) continue;
        maps.push_back({{"layer", layer},
                        {"step", d.step},
                        {"row_positions", {d.first_row, d.last_row}},
                        {"keys", d.keys},
                        {"key_positions", {d.first_key, d.last_key}},
                        {"sinks", d.sinks},
                        {"grid", {d.map.rows, d.map.columns}},
                        {"values", rounded(d.map.values)}});
      }
    }
    out["looks"] = looks_;
    out["every"] = settings_.every;
    out["sink_share"] = settings_.sink_share;
    out["sink_mass"] = values_of(sink_mass_);
    out["layer_overlap"] = overlaps;
    out["layer_overlap_ci95"] = ranges;
    out["step_overlap"] = values_of(over_time_);
    out["step_overlap_ci95"] = intervals_of(over_time_);
    out["maps"] = maps;
    out["first_token_mass"] = rounded(first_token_.value());
    out["first_token_mass_ci95"] = first_token_.interval();
    out["outside_overlap_mean"] = rounded(outside_stays_.value());
    out["outside_overlap_mean_ci95"] = outside_stays_.interval();
    out["pivot_without_meaning"] = rounded(without_meaning_.value());
    out["pivot_without_meaning_ci95"] = without_meaning_.interval();
    const auto widest = std::ranges::max_element(
        keys_for_90_, {}, [](const mean_by_item& layer) { return layer.value(); });
    if (widest != keys_for_90_.end()) {
      out["keys_for_90_max"] = rounded(widest->value());
      out["keys_for_90_max_ci95"] = widest->interval();
    }
  }

  // The highest tenth of the keys outside the block, and how much of it was so in the step before.
  void see_outside(const layer_view& layer, const attention_map& map,
                   const std::vector<double>& mass) {
    const sequence_step& step = layer.plan.of.front();
    std::vector<double> outside;
    std::vector<std::int32_t> position;
    for (std::size_t j = 0; j < mass.size(); ++j) {
      if (map.position[j] >= step.block_first && map.position[j] < step.block_last) continue;
      outside.push_back(mass[j]);
      position.push_back(map.position[j]);
    }
    std::vector<std::int32_t> tenth;
    const auto n = static_cast<std::int32_t>(outside.size() / 10);
    for (const std::int32_t j : probe_maths::largest(outside, n)) {
      tenth.push_back(position[static_cast<std::size_t>(j)]);
    }
    const std::size_t at = outside_.size();
    if (at < outside_before_.size() && !tenth.empty() && !outside_before_[at].empty()) {
      outside_stays_.add(probe_maths::overlap(outside_before_[at], tenth), requests_);
    }
    outside_.push_back(tenth);
  }

  // Share of the keys that hold nine tenths of the mass, and what the first token draws.
  void see_spread(const layer_view& layer, const attention_map& map, std::vector<double> mass) {
    if (map.position.front() == 0) first_token_.add(mass.front(), requests_);
    std::ranges::sort(mass, std::greater<>());
    double held = 0;
    std::size_t keys = 0;
    while (keys < mass.size() && held < 0.9) held += mass[keys++];
    const auto l = static_cast<std::size_t>(layer.layer);
    if (keys_for_90_.size() <= l) keys_for_90_.resize(l + 1);
    keys_for_90_[l].add(static_cast<double>(keys) / static_cast<double>(mass.size()), requests_);
  }

  // Which of the keys with most attention are punctuation, spaces or special tokens.
  void see_pivots(const layer_view& layer, const std::vector<std::int32_t>& pivots) {
    if (!source_.text) return;
    const std::int32_t* canvas = layer.state.canvas().row<std::int32_t>(0);
    for (const std::int32_t p : pivots) {
      const std::string text = source_.text(canvas[p]);
      const bool special = text.starts_with("<|") && text.ends_with("|>");
      const bool word = std::ranges::any_of(
          text, [](unsigned char c) { return std::isalnum(c) != 0 || c >= 0x80; });
      without_meaning_.add(special || !word ? 1 : 0, requests_);
    }
  }

  struct drawing {
    std::int64_t step = 0;
    std::int32_t first_row = 0, last_row = 0, keys = 0;
    std::int32_t first_key = 0, last_key = 0;
    std::vector<std::int32_t> sinks;
    probe_maths::small_map map;
  };

  // First and latest look at the first, middle and last layer.
  void draw(const layer_view& layer, const attention_map& map,
            const std::vector<std::int32_t>& sinks) {
    const std::int32_t layers = layer.state.model().layers;
    if (layer.layer != 0 && layer.layer != layers / 2 && layer.layer != layers - 1) return;
    drawing d;
    d.step = step_;
    d.first_row = layer.rows.position[0];
    d.last_row = layer.rows.position[map.rows - 1];
    d.keys = static_cast<std::int32_t>(map.slot.size());
    d.first_key = map.position.front();
    d.last_key = map.position.back();
    d.sinks = sinks;
    d.map = probe_maths::shrink(map.weight, map.rows, d.keys, grid);
    first_.try_emplace(layer.layer, d);
    last_[layer.layer] = d;
  }

  static constexpr std::int32_t grid = 24;
  std::int64_t step_ = 0, looks_ = 0;
  slot_map slots_;
  // Positions by layer, of this look and the last.
  std::vector<std::vector<std::int32_t>> sinks_, before_;
  std::vector<mean> sink_mass_;
  std::vector<mean_by_item> over_time_;
  std::vector<std::vector<mean_by_item>> overlap_;
  std::vector<std::vector<std::int32_t>> outside_, outside_before_;  // by layer
  mean_by_item outside_stays_, first_token_, without_meaning_;
  std::vector<mean_by_item> keys_for_90_;  // by layer
  std::map<std::int32_t, drawing> first_, last_;
};

}  // namespace

maker_list of_attention() {
  return {{"attention", make<attention_probe>}};
}

}  // namespace unmask::probes
