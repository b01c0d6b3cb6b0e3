// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/experiment/metrics.h"

#include <fmt/format.h>

#include "harness/decode/counters.h"

namespace unmask::inline experiment {

const std::vector<ratio_spec>& ratio_list() {
  static const std::vector<ratio_spec> list = {
      {"tpf", "output_tokens", "nfe", "tokens", "tokens per forward"},
      {"committed_per_step", "committed", "denoise_steps", "tokens",
       "tokens decided per forward that could decide one"},
      {"redundancy", "decode_rows", "committed", "rows",
       "rows that entered layer 0 outside prefill, per token decided: rows evicted later in the "
       "forward count, and it is below 1 where a prefill forward decides tokens"},
      {"token_utilisation", "committed", "decode_rows", "tokens", "its inverse (Optimus)"},
      {"processed_rows_per_committed", "processed_rows", "committed", "rows",
       "the redundancy of FOCUS, Table 5, which counts layers 2 and up"},
      {"processed_rows_per_output", "processed_rows", "output_tokens", "rows",
       "the same per token delivered, as the tracker of FOCUS prints it"},
  };
  return list;
}

std::vector<std::string> metric_lines() {
  std::vector<std::string> lines;
  for (const counter_spec& c : counter_list()) {
    lines.push_back(fmt::format("| `{}` | {} | {} | {} |", c.metric, c.unit,
                                c.counted() ? "counted" : "analytic", c.meaning));
  }
  for (const ratio_spec& r : ratio_list()) {
    lines.push_back(fmt::format("| `{}` | {} | counted | `{}` / `{}`: {} |", r.name, r.unit, r.over,
                                r.under, r.meaning));
  }
  return lines;
}

}  // namespace unmask::experiment
