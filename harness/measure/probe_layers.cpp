// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Writes down what only shows inside a forward: how far K and V move between steps, and the importance
// of the block's rows in every layer.
#include <cmath>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

#include "harness/measure/probe_writer.h"
#include "kernels/selection.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

// |a - b|_2.
double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  }
  return std::sqrt(sum);
}

// |K_t - K_{t-1}|_2 and the same for V, per position computed in both of two neighbouring steps of
// a block; summed over the positions of a region, which are too many to write down.
class kv_change_writer final : public probe_writer {
 public:
  using probe_writer::probe_writer;
  bool wants_layers() const override { return true; }

  void begin(const batch&) override {
    block_.begin();
    sums_.clear();
    forget();
  }

  void on_layer(const layer_view& layer) override {
    if (layer.layer == 0) {
      deciding_ = block_.see(layer.plan.of.front());
      if (deciding_ && block_.entered) forget();
    }
    if (!deciding_) return;
    const auto index = static_cast<std::size_t>(layer.layer);
    if (index >= layers_.size()) layers_.resize(index + 1);
    stored_layer& stored = layers_[index];
    const auto width = static_cast<std::size_t>(layer.k.columns());
    const auto length = static_cast<std::size_t>(layer.state.max_length());
    if (stored.seen.size() < length) {
      stored.seen.resize(length, never);
      stored.k.resize(length * width);
      stored.v.resize(length * width);
    }
    const std::int32_t prompt = layer.state.at(0).prompt_length;
    for (std::int32_t r = 0; r < layer.rows.rows; ++r) {
      const std::int32_t p = layer.rows.position[r];
      const auto at = static_cast<std::size_t>(p);
      const std::span<const float> k(layer.k.row<float>(r), width), v(layer.v.row<float>(r), width);
      const std::span<float> old_k(stored.k.data() + at * width, width);
      const std::span<float> old_v(stored.v.data() + at * width, width);
      if (block_.steps > 0 && stored.seen[at] == block_.steps - 1) {
        change& sum = sums_[{block_.steps - 1, layer.layer, region_of(p, prompt)}];
        sum.k += distance(k, old_k);
        sum.v += distance(v, old_v);
        ++sum.positions;
      }
      stored.seen[at] = block_.steps;
      std::copy(k.begin(), k.end(), old_k.begin());
      std::copy(v.begin(), v.end(), old_v.begin());
    }
  }

  void end() override {
    json line = {{"kind", "kv_change"}, {"sums", json::array()}};
    for (const auto& [at, sum] : sums_) {
      line["sums"].push_back({at.step, at.layer, at.region, sum.k, sum.v, sum.positions});
    }
    write(line);
  }

 private:
  static constexpr std::int32_t never = -2;
  struct stored_layer {
    std::vector<std::int32_t> seen;  // step of the block in which k and v were computed
    std::vector<float> k, v;         // [length, width]
  };
  struct place {
    std::int32_t step = 0, layer = 0;
    const char* region = "";
    auto operator<=>(const place& other) const {
      return std::tuple(step, layer, std::string_view(region)) <=>
             std::tuple(other.step, other.layer, std::string_view(other.region));
    }
  };
  struct change {
    double k = 0, v = 0;
    std::int64_t positions = 0;
  };

  void forget() {
    for (stored_layer& l : layers_) l.seen.assign(l.seen.size(), never);
  }
  const char* region_of(std::int32_t p, std::int32_t prompt) const {
    if (p >= block_.first && p < block_.last) return "block";
    if (p < prompt) return "prompt";
    return p < block_.first ? "before" : "after";
  }

  block_window block_;
  bool deciding_ = false;
  std::vector<stored_layer> layers_;
  std::map<place, change> sums_;
};

// FOCUS: importance of the block's rows in every layer, the masked among themselves and all of them,
// and what became of each.
class importance_writer final : public probe_writer {
 public:
  using probe_writer::probe_writer;
  bool wants_layers() const override { return true; }

  void begin(const batch&) override {
    block_.begin();
    steps_ = json::array();
  }

  void on_layer(const layer_view& layer) override {
    if (layer.layer == 0) {
      deciding_ = block_.see(layer.plan.of.front());
      masked_.clear();
      all_.clear();
    }
    if (!deciding_) return;
    masked_.push_back(scores(layer, true));
    all_.push_back(scores(layer, false));
  }

  void on_step(const step_view& step) override {
    if (!deciding_ || masked_.empty()) return;
    json accepted = json::array(), undecided = json::array(), layers = json::array();
    for (const decision_event& d : step.decisions) {
      if (decides_mask(d.what)) accepted.push_back(d.position);
    }
    const std::uint8_t* state = step.state.state().row<std::uint8_t>(0);
    for (std::int32_t p = block_.first; p < block_.last; ++p) {
      if (state[p] == state_masked) undecided.push_back(p);
    }
    for (std::size_t l = 0; l < masked_.size(); ++l) {
      layers.push_back({{"masked", {masked_[l].position, masked_[l].value}},
                        {"all", {all_[l].position, all_[l].value}}});
    }
    steps_.push_back({{"accepted", accepted}, {"undecided", undecided}, {"layers", layers}});
  }

  void end() override { write({{"kind", "importance"}, {"steps", steps_}}); }

 private:
  struct scored {
    std::vector<std::int32_t> position;
    std::vector<float> value;
  };

  scored scores(const layer_view& layer, bool masked_only) const {
    scored s;
    std::vector<std::int32_t> index;
    const std::uint8_t* state = layer.state.state().row<std::uint8_t>(0);
    for (std::int32_t r = 0; r < layer.rows.rows; ++r) {
      const std::int32_t p = layer.rows.position[r];
      if (p < block_.first || p >= block_.last) continue;
      if (masked_only && state[p] != state_masked) continue;
      index.push_back(r);
      s.position.push_back(p);
    }
    s.value.resize(index.size());
    const std::int32_t begin[2] = {0, static_cast<std::int32_t>(index.size())};
    layer.state.backend().run(
        op::importance{1, begin, index.data(), layer.q, layer.k, layer.scale, s.value.data()});
    return s;
  }

  block_window block_;
  bool deciding_ = false;
  std::vector<scored> masked_, all_;  // of this step, by layer
  json steps_;
};

}  // namespace

std::unique_ptr<probe_writer> write_kv_change(const probe_settings& settings,
                                              const probe_source& source, std::ostream& out) {
  return std::make_unique<kv_change_writer>(settings, source, out);
}

std::unique_ptr<probe_writer> write_importance(const probe_settings& settings,
                                               const probe_source& source, std::ostream& out) {
  return std::make_unique<importance_writer>(settings, source, out);
}

}  // namespace unmask::probes
