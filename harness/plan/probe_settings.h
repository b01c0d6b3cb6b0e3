// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// [probe]: which probes an experiment asks for, and their settings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/plan/keys.h"

namespace unmask {

//   confidence     Focus-dLLM Fig. 1: confidence now against one step before; recall of the masks that
//                  are decided, for good or not
//   attention      Focus-dLLM Figs. 2, 8, Sparse-dLLM Figs. 2, 7: maps, sinks, their overlap
//   kv_change      Sparse-dLLM Fig. 4: change of K and V outside the block between steps
//   stagnation     Ada-DLM Figs. 1, 2, 4: stagnation set, missed stable tokens, post-peak decline and
//                  which token of a declined position scores better; of the answer, edits included
//   contradiction  tokens of the answer, edits included, that a decode of one token per forward decides
//                  otherwise, by confidence; which of the two answers scores better
//   peak_oracle    the requests again, each position decided at the step where it was most confident:
//                  what a rule that knew the future could reach; not if tokens were revised, since
//                  it decides every position once
//   decoding       FOCUS Figs. 2, 9-11: tokens decided per step, rows computed per token; a position
//                  that is decided again counts again
//   importance     FOCUS Figs. 3, 4, 12-14: importance by layer, its difference against decodability;
//                  appendix D: gamma of that difference, and the eviction error it is to bound
//   decode_trace   the first requests forward by forward: rows, dropped rows, keys, candidates
inline const std::vector<std::string>& probe_names() {  // sorted
  static const std::vector<std::string> names = {"attention",    "confidence",  "contradiction",
                                                 "decode_trace", "decoding",    "importance",
                                                 "kv_change",    "peak_oracle", "stagnation"};
  return names;
}

struct probe_settings {
  std::vector<std::string> names;
  double tau = 0.9, margin = 0.05, sink_share = 0.05;
  std::int64_t every = 8, limit = 0, reference_block = 32;
  bool operator==(const probe_settings&) const = default;
};

template <class Visit>
void each_key(probe_settings& p, Visit& visit) {
  visit(file_key{"names"}.one_of(probe_names, "probe").needed(), p.names);
  visit(file_key{"tau", "confidence below which a stable token counts as missed"}.bounds(0, 1),
        p.tau);
  visit(file_key{"margin", "drop that is a decline"}.bounds(0, 1), p.margin);
  visit(file_key{"sink_share", "share of the keys that count as sinks"}.bounds(0, 1), p.sink_share);
  visit(file_key{"every", "attention: look at every so many steps"}.bounds(1, 1 << 20), p.every);
  visit(file_key{"limit", "requests; 0: all"}, p.limit);
  visit(file_key{"reference_block",
                 "contradiction: tokens per block of the reference on bidirectional models; 0: one"}
            .bounds(0, 1 << 20),
        p.reference_block);
}

}  // namespace unmask
