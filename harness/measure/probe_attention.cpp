// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Writes down attention maps and sinks. A sink of a layer is a key among the sink_share with the
// largest attention, averaged over the rows and heads of a step.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <span>

#include "harness/measure/probe_writer.h"
#include "kernels/reference/backend.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

// softmax_j(scale * q . key_j) for one query; keys end to end, each q.size() long.
std::vector<float> attention_row(std::span<const float> q, std::span<const float> keys,
                                 float scale) {
  const std::size_t n = q.empty() ? 0 : keys.size() / q.size();
  std::vector<float> weight(n);
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t j = 0; j < n; ++j) {
    float dot = 0;
    for (std::size_t d = 0; d < q.size(); ++d) dot += q[d] * keys[j * q.size() + d];
    weight[j] = dot * scale;
    best = std::max(best, weight[j]);
  }
  double sum = 0;
  for (float& w : weight) {
    w = std::exp(w - best);
    sum += w;
  }
  for (float& w : weight) w = static_cast<float>(w / sum);
  return weight;
}

// The n largest, ascending by index; lowest index first on ties.
std::vector<std::int32_t> largest(std::span<const double> values, std::int32_t n) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max(n, 0))));
  std::sort(order.begin(), order.end());
  return order;
}

// Mean of each cell when values [rows, columns] are cut into a grid of at most side x side cells of
// nearly equal size; row-major.
struct small_map {
  std::int32_t rows = 0, columns = 0;
  std::vector<double> values;
};
small_map shrink(std::span<const float> values, std::int32_t rows, std::int32_t columns,
                 std::int32_t side) {
  small_map map;
  map.rows = std::min(rows, side);
  map.columns = std::min(columns, side);
  for (std::int32_t r = 0; r < map.rows; ++r) {
    for (std::int32_t c = 0; c < map.columns; ++c) {
      const std::int32_t r0 = r * rows / map.rows, r1 = (r + 1) * rows / map.rows;
      const std::int32_t c0 = c * columns / map.columns, c1 = (c + 1) * columns / map.columns;
      double sum = 0;
      for (std::int32_t i = r0; i < r1; ++i) {
        for (std::int32_t j = c0; j < c1; ++j) {
          sum += values[static_cast<std::size_t>(i) * static_cast<std::size_t>(columns) +
                        static_cast<std::size_t>(j)];
        }
      }
      map.values.push_back(sum / ((r1 - r0) * (c1 - c0)));
    }
  }
  return map;
}

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
        const std::vector<float> w = attention_row(q, some, layer.scale);
        for (std::size_t i = 0; i < w.size(); ++i) {
          map.weight[static_cast<std::size_t>(r) * columns + admitted[i]] +=
              w[i] / static_cast<float>(heads);
        }
      }
    }
  }
  return map;
}

class attention_writer final : public probe_writer {
 public:
  using probe_writer::probe_writer;
  bool wants_layers() const override { return true; }

  void begin(const batch&) override {
    ++requests_;
    step_ = 0;
    slots_.begin();
    looks_ = json::array();
    layers_ = json::array();
    outside_ = json::array();
    tenths_ = json::array();
  }

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
    tenths_.push_back(highest_outside(layer, map, mass));
    if (!look) return;
    const auto n = static_cast<std::int32_t>(
        std::max<long>(1, std::lround(settings_.sink_share * static_cast<double>(mass.size()))));
    double held = 0;
    std::vector<std::int32_t> sinks;
    for (const std::int32_t j : largest(mass, n)) {
      held += mass[static_cast<std::size_t>(j)];
      sinks.push_back(map.position[static_cast<std::size_t>(j)]);
    }
    json seen = {{"layer", layer.layer},
                 {"sinks", sinks},
                 {"mass", held},
                 {"texts", texts_at(layer, sinks)},
                 {"keys_for_90", keys_for_nine_tenths(mass)}};
    if (map.position.front() == 0) seen["first"] = mass.front();
    layers_.push_back(std::move(seen));
    if (requests_ == 1) draw(layer, map, sinks);
  }

  void on_step(const step_view&) override {
    if (!tenths_.empty()) outside_.push_back({{"step", step_}, {"tenths", tenths_}});
    tenths_ = json::array();
    ++step_;
    if (layers_.empty()) return;
    looks_.push_back(layers_);
    layers_ = json::array();
  }

  void end() override {
    json line = {
        {"kind", "attention"}, {"looks", looks_}, {"outside", outside_}, {"maps", json::array()}};
    for (const auto* list : {&first_, &last_}) {
      for (const auto& [layer, map] : *list) {
        if (list == &last_ && first_.at(layer).at("step") == map.at("step")) continue;
        line["maps"].push_back(map);
      }
    }
    first_.clear();
    last_.clear();
    write(line);
  }

 private:
  // Positions of the tenth of the keys outside the block that draw most.
  static std::vector<std::int32_t> highest_outside(const layer_view& layer,
                                                   const attention_map& map,
                                                   const std::vector<double>& mass) {
    const sequence_step& step = layer.plan.of.front();
    std::vector<double> outside;
    std::vector<std::int32_t> position, tenth;
    for (std::size_t j = 0; j < mass.size(); ++j) {
      if (map.position[j] >= step.block_first && map.position[j] < step.block_last) continue;
      outside.push_back(mass[j]);
      position.push_back(map.position[j]);
    }
    for (const std::int32_t j : largest(outside, static_cast<std::int32_t>(outside.size() / 10))) {
      tenth.push_back(position[static_cast<std::size_t>(j)]);
    }
    return tenth;
  }

  // Share of the keys that hold nine tenths of the mass.
  static double keys_for_nine_tenths(std::vector<double> mass) {
    std::ranges::sort(mass, std::greater<>());
    double held = 0;
    std::size_t keys = 0;
    while (keys < mass.size() && held < 0.9) held += mass[keys++];
    return static_cast<double>(keys) / static_cast<double>(mass.size());
  }

  // The tokens at these positions; none where the source has no text.
  json texts_at(const layer_view& layer, const std::vector<std::int32_t>& positions) const {
    json texts = json::array();
    if (!source_.text) return texts;
    const std::int32_t* canvas = layer.state.canvas().row<std::int32_t>(0);
    for (const std::int32_t p : positions) texts.push_back(source_.text(canvas[p]));
    return texts;
  }

  // First and latest look at the first, middle and last layer.
  void draw(const layer_view& layer, const attention_map& map,
            const std::vector<std::int32_t>& sinks) {
    const std::int32_t layers = layer.state.model().layers;
    if (layer.layer != 0 && layer.layer != layers / 2 && layer.layer != layers - 1) return;
    const auto keys = static_cast<std::int32_t>(map.slot.size());
    const small_map small = shrink(map.weight, map.rows, keys, grid);
    json drawn = {{"layer", layer.layer},
                  {"step", step_},
                  {"row_positions", {layer.rows.position[0], layer.rows.position[map.rows - 1]}},
                  {"keys", keys},
                  {"key_positions", {map.position.front(), map.position.back()}},
                  {"sinks", sinks},
                  {"grid", {small.rows, small.columns}},
                  {"values", small.values}};
    first_.try_emplace(layer.layer, drawn);
    last_[layer.layer] = std::move(drawn);
  }

  static constexpr std::int32_t grid = 24;
  std::int64_t step_ = 0, requests_ = 0;
  slot_map slots_;
  json looks_, layers_;    // of this request; of this look
  json outside_, tenths_;  // the highest tenths: of this request; of this step, layer by layer
  std::map<std::int32_t, json> first_, last_;
};

}  // namespace

std::unique_ptr<probe_writer> write_attention(const probe_settings& settings,
                                              const probe_source& source, std::ostream& out) {
  return std::make_unique<attention_writer>(settings, source, out);
}

}  // namespace unmask::probes
