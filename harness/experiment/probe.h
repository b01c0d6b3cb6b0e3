// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Probes: the papers' motivation figures on the trajectory of any method. A probe watches a pass of
// its own, one request after the other, so that no measured time contains it.
//
//   confidence   Focus-dLLM Fig. 1: confidence now against one step before; recall of decided
//   tokens attention    Focus-dLLM Figs. 2, 8, Sparse-dLLM Figs. 2, 7: maps, sinks, their overlap
//   kv_change    Sparse-dLLM Fig. 4: change of K and V outside the block between steps
//   stagnation   Ada-DLM Figs. 1, 2, 4: stagnation set, missed stable tokens, post-peak decline
//   decoding     FOCUS Figs. 2, 9-11: tokens decided per step, rows computed per token
//   importance   FOCUS Figs. 3, 4, 12-14: importance by layer, its difference against decodability
//   decode_trace the first requests forward by forward: rows, dropped rows, keys, candidates
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/decode/step_loop.h"

namespace unmask {

struct probe_settings {
  std::vector<std::string> names;
  double tau = 0.9;          // confidence below which a stable token counts as missed
  double margin = 0.05;      // drop that counts as a decline
  double sink_share = 0.05;  // of the keys: how many count as sinks
  std::int64_t every = 8;    // attention: look at every so many steps
  std::int64_t limit = 0;    // requests; 0: all of the workload
  bool operator==(const probe_settings&) const = default;
};

// The text of one token; empty where there is no tokenizer.
using token_text = std::function<std::string(std::int32_t token)>;

class probe {
 public:
  virtual ~probe() = default;
  virtual bool wants_layers() const { return false; }
  // A request took the only place; called before its first layer.
  virtual void begin(const batch& b) { (void)b; }
  virtual void on_layer(const layer_view& layer) { (void)layer; }
  virtual void on_step(const step_view& step) = 0;
  // After the last step of a request.
  virtual void end() {}
  virtual std::string result() const = 0;  // one JSON object
};

std::vector<std::string> probe_names();  // sorted
// Usage error with the nearest names for an unknown one.
std::unique_ptr<probe> make_probe(const std::string& name, const probe_settings& settings,
                                  const token_text& text = {});

// Shows a pass with one place to every probe of the settings.
class probe_observer final : public step_observer {
 public:
  explicit probe_observer(const probe_settings& settings, const token_text& text = {});
  bool wants_layers() const override;
  void on_layer(const layer_view& layer) override;
  void on_step(const step_view& step) override;
  // Ends the last request: JSON object of each probe by name.
  std::map<std::string, std::string> results();

 private:
  void begin_if_new(const batch& b);
  std::vector<std::pair<std::string, std::unique_ptr<probe>>> probes_;
  bool running_ = false;  // a request has begun and not ended
  bool in_step_ = false;  // layers of the step that comes next were shown
};

}  // namespace unmask
