// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the files of the probes share. Private to the experiment room.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "harness/experiment/probe.h"
#include "harness/experiment/probe_maths.h"
#include "kernels/decisions.h"

namespace unmask::probes {

using probe_maths::decision_trace, probe_maths::share;
using maker = std::unique_ptr<probe> (*)(const probe_settings&, const probe_source&);
using maker_list = std::map<std::string, maker>;  // by the probe's name

// The probes of each file.
maker_list of_attention();
maker_list of_decisions();
maker_list of_layers();
maker_list of_second_decodes();
maker_list of_traces();

template <class Probe>
std::unique_ptr<probe> make(const probe_settings& settings, const probe_source& source) {
  return std::make_unique<Probe>(settings, source);
}

// Five significant digits: rows stay small, figures do not change.
inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, 4 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * unit) / unit;
}

inline std::vector<double> rounded(const std::vector<double>& values) {
  std::vector<double> out;
  for (const double v : values) out.push_back(rounded(v));
  return out;
}

// The block a step decodes, as far as its plan shows it: candidates right of the blocks before.
class block_window {
 public:
  void begin() { *this = {}; }
  // True when the step can decide tokens; `entered` then says whether it is the first of a block.
  bool see(const sequence_step& step) {
    if (!step.active || step.candidate_last <= step.candidate_first) return false;
    entered = step.candidate_last != last;
    if (entered) {
      first = std::max(step.candidate_first, step.candidate_last > last ? last : 0);
      last = step.candidate_last;
      steps = 0;
    } else {
      ++steps;
    }
    return true;
  }
  std::int32_t first = 0, last = 0;
  std::int32_t steps = 0;  // steps of this block before this one
  bool entered = false;
};

// Which position a slot of the only sequence holds, where a cache is compacted: the slots a method
// moved, and those that rows wrote.
class slot_map {
 public:
  void begin() { written_.clear(); }
  // To be shown every layer.
  void see(const layer_view& layer) {
    moved_ = layer.slot_position;
    if (layer.layer != 0) return;
    for (std::int32_t r = 0; r < layer.rows.rows; ++r) {
      const std::int32_t position = layer.rows.position[r];
      const std::int32_t slot = layer.rows.slot ? layer.rows.slot[r] : position;
      while (static_cast<std::int32_t>(written_.size()) <= slot) {
        written_.push_back(static_cast<std::int32_t>(written_.size()));
      }
      written_[static_cast<std::size_t>(slot)] = position;
    }
  }
  std::int32_t position(std::int32_t slot) const {
    const auto i = static_cast<std::size_t>(slot);
    if (i < moved_.size()) return moved_[i];
    return i < written_.size() ? written_[i] : slot;
  }

 private:
  std::vector<std::int32_t> moved_, written_;
};

// Running mean.
struct mean {
  double sum = 0, most = 0;  // most: the largest value above 0
  std::int64_t n = 0;
  void add(double value) {
    sum += value;
    most = std::max(most, value);
    ++n;
  }
  double value() const { return n > 0 ? sum / static_cast<double>(n) : std::nan(""); }
};

// A mean that keeps the part of every item, so that items can be drawn anew.
struct mean_by_item {
  std::vector<std::array<double, 2>> items;  // sum and count
  void add(double value, std::int64_t requests) {
    if (items.size() < static_cast<std::size_t>(requests)) {
      items.resize(static_cast<std::size_t>(requests));
    }
    items.back()[0] += value;
    ++items.back()[1];
  }
  double value() const {
    double sum = 0, n = 0;
    for (const auto& [s, count] : items) sum += s, n += count;
    return n > 0 ? sum / n : std::nan("");
  }
  // 95 % over items; empty under two.
  std::vector<double> interval() const {
    return probe_maths::interval_over_items(items.size(), [&](std::span<const std::size_t> drawn) {
      double sum = 0, n = 0;
      for (const std::size_t i : drawn) sum += items[i][0], n += items[i][1];
      return sum / n;
    });
  }
};

// Of two tokens or answers of a request, which one its scorer prefers.
struct comparison {
  std::int64_t first_better = 0, second_better = 0, equal = 0;
  std::int64_t scored() const { return first_better + second_better + equal; }
  void add(const std::optional<double>& first, const std::optional<double>& second) {
    if (!first || !second) return;
    ++(*first > *second ? first_better : *second > *first ? second_better : equal);
  }
};

// A probe of decisions: the trace of one request at a time.
class decision_probe : public probe {
 public:
  using probe::probe;
  void on_step(const step_view& step) override {
    const candidate_lists& c = step.candidates;
    if (c.count == 0) return;
    auto& judged = trace_.emplace_back();
    const std::uint8_t* state = step.state.state().row<std::uint8_t>(0);
    for (std::int32_t i = 0; i < c.count; ++i) {
      const std::int32_t position = c.position.as<std::int32_t>()[i];
      if (state[position] != state_masked) continue;  // up for another token, not for its first
      judged.push_back({position, c.token.as<std::int32_t>()[i], c.probability.as<float>()[i],
                        decides_mask(c.accept.as<std::uint8_t>()[i])});
    }
  }
  void end() override {
    steps_ += static_cast<std::int64_t>(trace_.size());
    add(trace_);
  }

 protected:
  void begin_request(const batch& b) override {
    trace_.clear();
    prompt_length_ = b.at(0).prompt_length;
    canvas_length_ = b.at(0).length - prompt_length_;
    stop_ids_ = b.model().stop_ids;
  }
  virtual void add(const decision_trace& trace) = 0;
  std::int64_t steps_ = 0;
  std::int32_t prompt_length_ = 0, canvas_length_ = 0;  // of the request that ends
  std::vector<std::int32_t> stop_ids_;

 private:
  decision_trace trace_;
};

inline void add_at(std::vector<mean>& means, std::size_t i, double value) {
  means.resize(std::max(means.size(), i + 1));
  means[i].add(value);
}

template <class Mean>
std::vector<double> values_of(const std::vector<Mean>& means) {
  std::vector<double> out;
  for (const Mean& m : means) out.push_back(rounded(m.value()));
  return out;
}
inline std::vector<std::vector<double>> intervals_of(const std::vector<mean_by_item>& means) {
  std::vector<std::vector<double>> out;
  for (const mean_by_item& m : means) out.push_back(m.interval());
  return out;
}

}  // namespace unmask::probes
