// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a probed pass writes down. Each writer adds JSON lines; the package computes the probes from
// them (harness/python/unmask/probes/trace.py describes the lines). Private to the probes (probe*.cpp).
#pragma once

#include <algorithm>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/measure/probe.h"

namespace unmask::probes {

class probe_writer {
 public:
  probe_writer(const probe_settings& settings, const probe_source& source, std::ostream& out)
      : settings_(settings), source_(source), out_(out) {}
  virtual ~probe_writer() = default;
  virtual bool wants_layers() const { return false; }
  // A request took the only place; called before its first layer.
  virtual void begin(const batch& b) { (void)b; }
  virtual void on_layer(const layer_view& layer) { (void)layer; }
  virtual void on_step(const step_view& step) { (void)step; }
  // The last step of a request is over.
  virtual void end() {}
  // The last request is over; decodes of its own go here.
  virtual void finish() {}

 protected:
  void write(const nlohmann::json& line) {
    // The text of a token may hold a part of a character only.
    out_ << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }
  const probe_settings& settings_;
  const probe_source& source_;

 private:
  std::ostream& out_;
};

// One for each kind of line.
std::unique_ptr<probe_writer> write_decisions(const probe_settings&, const probe_source&,
                                              std::ostream&);
std::unique_ptr<probe_writer> write_kv_change(const probe_settings&, const probe_source&,
                                              std::ostream&);
std::unique_ptr<probe_writer> write_importance(const probe_settings&, const probe_source&,
                                               std::ostream&);
std::unique_ptr<probe_writer> write_attention(const probe_settings&, const probe_source&,
                                              std::ostream&);
std::unique_ptr<probe_writer> write_trace(const probe_settings&, const probe_source&,
                                          std::ostream&);

// The event of a candidate, taken off the front of the list; null: it stays as it is. Candidates of a
// step and its events come in one order.
inline const decision_event* take_event(std::span<const decision_event>& list,
                                        std::int32_t position) {
  if (list.empty() || list.front().position != position) return nullptr;
  const decision_event* event = list.data();
  list = list.subspan(1);
  return event;
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

}  // namespace unmask::probes
