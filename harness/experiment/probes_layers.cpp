// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes that look into the layers of a forward.
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "harness/experiment/probes.h"
#include "kernels/decisions.h"
#include "kernels/selection.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

// ---- kv_change --------------------------------------------------------------------------------

// |K_t - K_{t-1}|_2 and the same for V, per position computed in both of two neighbouring steps of
// a block.
class kv_change_probe final : public probe {
 public:
  using probe::probe;
  bool wants_layers() const override { return true; }

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
        add(layer.layer, region_of(p, prompt), probe_maths::distance(k, old_k),
            probe_maths::distance(v, old_v));
      }
      stored.seen[at] = block_.steps;
      std::copy(k.begin(), k.end(), old_k.begin());
      std::copy(v.begin(), v.end(), old_v.begin());
    }
  }

 private:
  void begin_request(const batch&) override {
    block_.begin();
    forget();
  }
  void forget() {
    for (stored_layer& l : layers_) l.seen.assign(l.seen.size(), never);
  }

  void report(json& out) const override {
    json counts = json::array();
    json k_items = json::array(), v_items = json::array();  // sum and count of every item
    for (std::size_t t = 0; t < step_k_.size(); ++t) {
      double n = 0;
      for (const auto& item : step_k_[t].items) n += item[1];
      counts.push_back(static_cast<std::int64_t>(n));
      k_items.push_back(step_k_[t].items);
      v_items.push_back(step_v_[t].items);
    }
    out["layers"] = {{"k", values_of(layer_k_)}, {"v", values_of(layer_v_)}};
    out["steps"] = {{"k", values_of(step_k_)},
                    {"v", values_of(step_v_)},
                    {"positions", counts},
                    {"k_items", k_items},
                    {"v_items", v_items}};
    for (std::size_t i = 0; i < 4; ++i) {
      out["regions"][region_names[i]] = {{"k", rounded(region_k_[i].value())},
                                         {"v", rounded(region_v_[i].value())},
                                         {"positions", region_k_[i].n}};
    }
  }

  static constexpr std::int32_t never = -2;
  static constexpr const char* region_names[] = {"prompt", "before", "block", "after"};
  enum region : std::uint8_t { prompt_region, before, inside, after };
  struct stored_layer {
    std::vector<std::int32_t> seen;  // step of the block in which k and v were computed
    std::vector<float> k, v;         // [length, width]
  };

  region region_of(std::int32_t p, std::int32_t prompt) const {
    if (p >= block_.first && p < block_.last) return inside;
    if (p < prompt) return prompt_region;
    return p < block_.first ? before : after;
  }

  void add(std::int32_t layer, region where, double k, double v) {
    region_k_[where].add(k);
    region_v_[where].add(v);
    if (where == inside) return;
    const auto l = static_cast<std::size_t>(layer), t = static_cast<std::size_t>(block_.steps - 1);
    add_at(layer_k_, l, k);
    add_at(layer_v_, l, v);
    if (step_k_.size() <= t) step_k_.resize(t + 1), step_v_.resize(t + 1);
    step_k_[t].add(k, requests_);
    step_v_[t].add(v, requests_);
  }

  block_window block_;
  bool deciding_ = false;
  std::vector<stored_layer> layers_;
  std::vector<mean> layer_k_, layer_v_;        // outside the block
  std::vector<mean_by_item> step_k_, step_v_;  // the same by step of the block, 0 -> 1 first
  mean region_k_[4], region_v_[4];
};

// ---- importance -------------------------------------------------------------------------------

// FOCUS: importance of the block's masked rows in every layer, and what became of them.
class importance_probe final : public probe {
 public:
  using probe::probe;
  bool wants_layers() const override { return true; }

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
    std::vector<std::int32_t> accepted;
    const candidate_lists& c = step.candidates;
    for (std::int32_t i = 0; i < c.count; ++i) {
      if (decides_mask(c.accept.as<std::uint8_t>()[i]))
        accepted.push_back(c.position.as<std::int32_t>()[i]);
    }
    const auto is_accepted = [&](std::int32_t p) {
      return std::binary_search(accepted.begin(), accepted.end(), p);
    };
    const std::uint8_t* state = step.state.state().row<std::uint8_t>(0);
    const std::size_t layers = masked_.size();
    layer_.resize(std::max(layer_.size(), layers));
    for (layer_record& l : layer_) l.begin_item(requests_);
    for (std::size_t l = 0; l < layers; ++l) {
      for (std::size_t i = 0; i < masked_[l].position.size(); ++i) {
        const bool yes = is_accepted(masked_[l].position[i]);
        layer_[l].of[yes ? decodable : not_decodable].add(masked_[l].value[i]);
      }
      for (std::size_t i = 0; i < all_[l].position.size(); ++i) {
        const std::int32_t p = all_[l].position[i];
        const int kind = state[p] != state_masked ? decoded
                         : is_accepted(p)         ? decodable
                                                  : not_decodable;
        layer_[l].with_decoded[kind].add(all_[l].value[i]);
      }
      keep(is_accepted, masked_[l].position, probe_maths::standard_scores(masked_[l].value),
           layer_[l].raw);
      add_decided_mass(state, all_[l]);
    }
    // Differences of neighbouring layers; a layer that lost rows has none.
    for (std::size_t l = 1; l < layers; ++l) {
      if (masked_[l].position != masked_[l - 1].position) break;
      std::vector<float> delta(masked_[l].value.size());
      for (std::size_t i = 0; i < delta.size(); ++i) {
        delta[i] = masked_[l].value[i] - masked_[l - 1].value[i];
      }
      keep(is_accepted, masked_[l].position, probe_maths::standard_scores(delta), layer_[l].delta);
      if (l == 1) {
        for (std::size_t i = 0; i < delta.size(); ++i) {
          const bool yes = is_accepted(masked_[l].position[i]);
          (yes ? deltas_.back().decodable : deltas_.back().not_decodable).add(delta[i]);
          if (yes) decodable_deltas_.push_back(delta[i]);
          skew_.back().add(delta[i]);
          raw_skew_.back().add(masked_[l].value[i]);
        }
        delta_bins_.count(is_accepted, masked_[l].position, delta);
        raw_bins_.count(is_accepted, masked_[l].position, masked_[l].value);
      }
    }
  }

 private:
  void begin_request(const batch&) override {
    block_.begin();
    for (layer_record& l : layer_) l.begin_item(requests_);
    deltas_.emplace_back();
    skew_.emplace_back();
    raw_skew_.emplace_back();
    delta_bins_.top.emplace_back();
    raw_bins_.top.emplace_back();
  }

  void report(json& out) const override {
    json layers = json::array();
    for (const layer_record& l : layer_) {
      json row = {{"auc", probe_maths::area_under_curve(l.raw.positive, l.raw.negative)},
                  {"auc_delta", probe_maths::area_under_curve(l.delta.positive, l.delta.negative)}};
      if (&l - layer_.data() < 2) {  // the two that the method reads
        report_areas(l, row);
      }
      for (const int kind : {decodable, not_decodable}) {
        row["masked"][kind_names[kind]] = rounded(l.of[kind].value());
        row["tokens"][kind_names[kind]] = l.of[kind].n;
      }
      for (const int kind : {decodable, not_decodable, decoded}) {
        row["with_decoded"][kind_names[kind]] = rounded(l.with_decoded[kind].value());
      }
      layers.push_back(row);
    }
    out["layers"] = layers;
    for (const auto& [name, bins] : {std::pair<std::string, const fifths&>("delta", delta_bins_),
                                     std::pair<std::string, const fifths&>("layer1", raw_bins_)}) {
      out[name + "_top_fifth"] = probe_maths::sum_of(bins.top).value();
      out[name + "_top_fifth_ci95"] = probe_maths::interval_of(bins.top, &share::value);
      out[name + "_percentiles"] = {{"decodable", bins.counts[1]},
                                    {"not_decodable", bins.counts[0]}};
    }
    report_gamma(out);
    out["delta_mean_of_others"] = probe_maths::sum_of(deltas_).mean_of_others();
    out["delta_mean_of_others_ci95"] =
        probe_maths::interval_of(deltas_, &probe_maths::importance_deltas::mean_of_others);
    for (const auto& [name, of] :
         {std::pair("delta_skewness", &skew_), std::pair("layer1_skewness", &raw_skew_)}) {
      out[name] = probe_maths::sum_of(*of).size_of_skewness();
      out[std::string(name) + "_ci95"] =
          probe_maths::interval_of(*of, &probe_maths::third_moments::size_of_skewness);
    }
    out["decided_mass"] = rounded(decided_mass_.value());
    out["decided_mass_ci95"] = decided_mass_.interval();
    // Density of the standardised difference of layers 1 and 0: sixteen bins from -4 to 4.
    std::vector<std::int64_t> yes(16), no(16);
    if (layer_.size() > 1) {
      const auto count = [](const std::vector<float>& values, std::vector<std::int64_t>& into) {
        for (const float z : values) {
          ++into[static_cast<std::size_t>(std::clamp((z + 4) * 2, 0.0F, 15.0F))];
        }
      };
      count(layer_[1].delta.positive, yes);
      count(layer_[1].delta.negative, no);
    }
    out["delta_density"] = {{"from", -4}, {"to", 4}, {"decodable", yes}, {"not_decodable", no}};
  }

  // FOCUS, appendix D: whether the differences of layers 1 and 0 are as far apart as Proposition D.1
  // asks (gamma > 1), the eviction error that it bounds (eq. 9), and the bound (eq. 14).
  void report_gamma(json& out) const {
    using probe_maths::importance_deltas;
    const importance_deltas all = probe_maths::sum_of(deltas_);
    const double gamma = all.gamma(), sigma = all.not_decodable.deviation();
    out["gamma"] = gamma;
    out["gamma_ci95"] = probe_maths::interval_of(deltas_, &importance_deltas::gamma);
    out["gamma_separation"] = all.separation();
    out["gamma_separation_ci95"] =
        probe_maths::interval_of(deltas_, &importance_deltas::separation);
    share missed;
    for (const float delta : decodable_deltas_) missed.count(delta < sigma);
    out["eviction_error"] = missed.value();
    out["eviction_error_bound"] =
        gamma > 1 ? std::exp(-(gamma - 1) * (gamma - 1) / 2) : std::nan("");
  }

  enum token_kind : int { not_decodable, decodable, decoded };
  static constexpr const char* kind_names[] = {"not_decodable", "decodable", "decoded"};
  struct scored {
    std::vector<std::int32_t> position;
    std::vector<float> value;
  };
  struct classes {
    std::vector<float> positive, negative;
    std::vector<std::array<std::size_t, 2>> first;  // where the values of an item begin
    void begin_item(std::int64_t requests) {
      first.resize(static_cast<std::size_t>(requests), {positive.size(), negative.size()});
    }
    // Area under the curve of these items.
    double area(std::span<const std::size_t> drawn) const {
      const auto slice = [&](const std::vector<float>& from, std::size_t item, int side,
                             std::vector<float>& to) {
        const std::size_t end =
            item + 1 < first.size() ? first[item + 1][static_cast<std::size_t>(side)] : from.size();
        const auto at = static_cast<std::ptrdiff_t>(first[item][static_cast<std::size_t>(side)]);
        to.insert(to.end(), from.begin() + at, from.begin() + static_cast<std::ptrdiff_t>(end));
      };
      std::vector<float> yes, no;
      for (const std::size_t item : drawn) {
        slice(positive, item, 0, yes);
        slice(negative, item, 1, no);
      }
      return probe_maths::area_under_curve(yes, no);
    }
  };
  struct layer_record {
    mean of[2];            // masked rows among themselves
    mean with_decoded[3];  // all rows of the block among themselves
    classes raw, delta;    // standardised within their step
    void begin_item(std::int64_t requests) {
      raw.begin_item(requests);
      delta.begin_item(requests);
    }
  };
  // Intervals of the two areas, and what the difference of layers gains over the layer alone. The
  // draws are the same in all three.
  static void report_areas(const layer_record& l, json& row) {
    constexpr int draws = 200;
    const std::size_t items = l.raw.first.size();
    std::vector<double> raw, delta;
    row["auc_ci95"] = probe_maths::interval_over_items(
        items, [&](auto drawn) { return raw.emplace_back(l.raw.area(drawn)); }, draws);
    row["auc_delta_ci95"] = probe_maths::interval_over_items(
        items, [&](auto drawn) { return delta.emplace_back(l.delta.area(drawn)); }, draws);
    row["auc_gain"] = row["auc_delta"].get<double>() - row["auc"].get<double>();
    std::size_t at = 0;
    row["auc_gain_ci95"] = probe_maths::interval_over_items(
        items,
        [&](auto) {
          const std::size_t i = at++;
          return delta[i] - raw[i];
        },
        draws);
  }

  // Quintiles of the values of a step; steps with fewer than five masks have none.
  struct fifths {
    std::array<std::int64_t, 5> counts[2]{};  // [0] not decodable, [1] decodable
    std::vector<share> top;                   // by item: of the decodable, those in the top fifth

    template <class Accepted>
    void count(const Accepted& accepted, const std::vector<std::int32_t>& position,
               const std::vector<float>& value) {
      if (position.size() < 5) return;
      const std::vector<std::int32_t> bin = probe_maths::percentile_bins(value, 5);
      for (std::size_t i = 0; i < position.size(); ++i) {
        const bool yes = accepted(position[i]);
        ++counts[yes ? 1 : 0][static_cast<std::size_t>(bin[i])];
        if (yes) top.back().count(bin[i] == 4);
      }
    }
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

  // What decided rows draw of a layer's attention inside the block, where there are both kinds.
  void add_decided_mass(const std::uint8_t* state, const scored& all) {
    double decided = 0, whole = 0;
    std::size_t masks = 0;
    for (std::size_t i = 0; i < all.position.size(); ++i) {
      const bool is_mask = state[all.position[i]] == state_masked;
      decided += is_mask ? 0 : all.value[i];
      whole += all.value[i];
      masks += is_mask;
    }
    if (masks > 0 && masks < all.position.size()) decided_mass_.add(decided / whole, requests_);
  }

  template <class Accepted>
  static void keep(const Accepted& accepted, const std::vector<std::int32_t>& position,
                   const std::vector<float>& value, classes& into) {
    for (std::size_t i = 0; i < position.size(); ++i) {
      (accepted(position[i]) ? into.positive : into.negative).push_back(value[i]);
    }
  }

  block_window block_;
  bool deciding_ = false;
  std::vector<scored> masked_, all_;  // of this step, by layer
  std::vector<layer_record> layer_;
  fifths delta_bins_, raw_bins_;                        // of layer 1 minus layer 0, and of layer 1
  std::vector<probe_maths::importance_deltas> deltas_;  // by item, of layer 1 minus layer 0
  std::vector<float> decodable_deltas_;
  std::vector<probe_maths::third_moments> skew_,
      raw_skew_;               // by item: of the difference, of layer 1
  mean_by_item decided_mass_;  // over layers and steps
};

}  // namespace

maker_list of_layers() {
  return {{"kv_change", make<kv_change_probe>}, {"importance", make<importance_probe>}};
}

}  // namespace unmask::probes
