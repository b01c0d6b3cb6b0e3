// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/plan/probe_settings.h"

namespace unmask {

const std::vector<probe_kind>& probe_list() {
  static const std::vector<probe_kind> table = {
      {"attention",
       "maps, sinks and their overlap (Focus-dLLM Figs. 2, 8, Sparse-dLLM Figs. 2, 7)"},
      {"confidence",
       "confidence now against one step before; recall of decided tokens (Focus-dLLM Fig. 1)"},
      {"contradiction",
       "decided tokens that a decode of one token per forward decides otherwise, by confidence; "
       "which of "
       "the two answers scores better"},
      {"decode_trace",
       "the first requests forward by forward: rows, dropped rows, keys, candidates"},
      {"decoding", "tokens decided per step, rows computed per token (FOCUS Figs. 2, 9-11)"},
      {"importance",
       "importance by layer, its difference against decodability (FOCUS Figs. 3, 4, 12-14); "
       "appendix D: "
       "gamma of that difference, and the eviction error it is to bound"},
      {"kv_change", "change of K and V outside the block between steps (Sparse-dLLM Fig. 4)"},
      {"peak_oracle",
       "the requests again, each position decided at the step where it was most confident: what a "
       "rule "
       "that knew the future could reach"},
      {"stagnation",
       "stagnation set, missed stable tokens, post-peak decline and which token of a declined "
       "position "
       "scores better (Ada-DLM Figs. 1, 2, 4)"}};
  return table;
}

std::vector<std::string> probe_names() {
  std::vector<std::string> names;
  for (const probe_kind& kind : probe_list()) names.emplace_back(kind.name);
  return names;
}

}  // namespace unmask
