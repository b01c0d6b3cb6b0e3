// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Writes down a decode forward by forward: which rows were computed, which of them a method
// dropped on the way, which cached positions the rest could see, and what the head said about every
// candidate. The decode player of the report and the maps of decoding order are drawn from it.
#include <cmath>
#include <iterator>
#include <set>

#include "harness/measure/probe_writer.h"

namespace unmask::probes {
namespace {

using nlohmann::json;

// Ascending positions as half-open ranges [first, last): a block takes two numbers.
json ranges_of(const std::vector<std::int32_t>& positions) {
  json ranges = json::array();
  for (std::size_t i = 0; i < positions.size();) {
    std::size_t end = i + 1;
    while (end < positions.size() && positions[end] == positions[end - 1] + 1) ++end;
    ranges.push_back({positions[i], positions[end - 1] + 1});
    i = end;
  }
  return ranges;
}

std::vector<std::int32_t> positions_of(const row_set& rows) {
  return {rows.position, rows.position + rows.rows};
}

class trace_writer final : public probe_writer {
 public:
  using probe_writer::probe_writer;

  // The keys a forward sees are shown layer by layer.
  bool wants_layers() const override { return requests_ <= kept; }

  // The last layer that is shown stays: what methods that choose keys by layer have settled on.
  void on_layer(const layer_view& layer) override {
    if (requests_ > kept) return;
    const key_set& keys = layer.keys;
    slots_.see(layer);
    visible_ = json();
    keys_ = -1;
    if (keys.tiles.keep && keys.tiles.applies[0] != 0) return;  // every head sees others
    std::vector<std::int32_t> seen;
    if (keys.key_begin) {
      seen.assign(keys.key_slot + keys.key_begin[0], keys.key_slot + keys.key_begin[1]);
    } else {
      for (std::int32_t slot = 0; slot < keys.kv_length[0]; ++slot) seen.push_back(slot);
    }
    keys_ = static_cast<std::int64_t>(seen.size());
    for (std::int32_t& slot : seen) slot = slots_.position(slot);
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    visible_ = ranges_of(seen);
  }

  void on_step(const step_view& step) override {
    if (requests_ > kept) return;
    const sequence_step& plan = step.plan.of.front();
    const std::vector<std::int32_t> entered = positions_of(step.entered);
    const std::vector<std::int32_t> left = positions_of(step.left);
    std::vector<std::int32_t> dropped;
    std::set_difference(entered.begin(), entered.end(), left.begin(), left.end(),
                        std::back_inserter(dropped));
    std::vector<std::int32_t> cached;
    const auto* state = step.state.state().row<std::uint8_t>(0);
    for (std::int32_t p = prompt_length_; p < step.state.at(0).length; ++p) {
      if (state[p] == state_cached) cached.push_back(p);
    }
    const candidate_lists& c = step.candidates;
    json position = json::array(), token = json::array(), confidence = json::array();
    json accepted = json::array(), replaced = json::array(), reopened = json::array();
    std::span<const decision_event> events = step.decisions;
    for (std::int32_t i = 0; i < c.count; ++i) {
      position.push_back(c.position.as<std::int32_t>()[i]);
      token.push_back(c.token.as<std::int32_t>()[i]);
      seen_.insert(c.token.as<std::int32_t>()[i]);
      // Four places: colours and histograms do not change, rows stay small.
      confidence.push_back(std::round(static_cast<double>(c.probability.as<float>()[i]) * 1e4) /
                           1e4);
      const decision_event* event = take_event(events, c.position.as<std::int32_t>()[i]);
      if (event == nullptr) continue;
      if (decides_mask(event->what)) accepted.push_back(i);
      if (event->what == decision_replace) replaced.push_back(i);
      if (event->what == decision_reopen) reopened.push_back(i);
    }
    steps_.push_back({{"phase", name_of(plan.what)},
                      {"block", {plan.block_first, plan.block_last}},
                      {"rows", ranges_of(entered)},
                      {"dropped", ranges_of(dropped)},
                      {"cached", ranges_of(cached)},
                      {"keys", keys_ >= 0 ? json(keys_) : json()},
                      {"visible", visible_},
                      {"position", position},
                      {"token", token},
                      {"confidence", confidence},
                      {"accepted", accepted}});
    if (!replaced.empty()) steps_.back()["replaced"] = replaced;
    if (!reopened.empty()) steps_.back()["reopened"] = reopened;
    visible_ = json();
    keys_ = -1;
  }

  void end() override {
    if (requests_ > kept) return;
    current_["steps"] = steps_;
    write(current_);
  }

  void begin(const batch& b) override {
    ++requests_;
    visible_ = json();
    keys_ = -1;
    slots_.begin();
    if (requests_ > kept) return;
    const sequence& s = b.at(0);
    prompt_length_ = s.prompt_length;
    stops_.insert(b.model().stop_ids.begin(), b.model().stop_ids.end());
    current_ = {{"kind", "decode"}, {"prompt", s.request.prompt}, {"length", s.length}};
    steps_ = json::array();
    for (const std::int32_t token : s.request.prompt) seen_.insert(token);
  }

  void finish() override {
    json text = json::object();
    if (source_.text) {
      for (const std::int32_t token : seen_) text[std::to_string(token)] = source_.text(token);
    }
    write({{"kind", "decode_text"}, {"text", text}, {"stops", stops_}});
  }

 private:
  static constexpr std::int64_t kept = 4;  // requests written down; rows stay readable
  std::int64_t requests_ = 0;
  std::int32_t prompt_length_ = 0;
  std::int64_t keys_ = -1;
  slot_map slots_;
  json current_, steps_, visible_;
  std::set<std::int32_t> seen_, stops_;
};

}  // namespace

std::unique_ptr<probe_writer> write_trace(const probe_settings& settings,
                                          const probe_source& source, std::ostream& out) {
  return std::make_unique<trace_writer>(settings, source, out);
}

}  // namespace unmask::probes
