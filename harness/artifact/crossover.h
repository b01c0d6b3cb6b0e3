// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which method wins where: over batch size, prompt length and generation length.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/artifact/selector.h"

namespace unmask {

struct crossover_entry {
  std::string label;  // and what the sweep changed, run settings aside
  double tokens_per_second = 0;
  std::optional<interval> range;
  std::optional<estimate> speedup;        // over the base, where there is one
  std::optional<double> selection_share;  // of step time: choosing rows and keys, evicting
  std::optional<double> score;
  bool synthetic = false;
};

struct crossover_cell {
  std::string model, workload;  // model empty: several were compared
  std::int64_t batch_size = 1, gen_length = 0;
  double prompt_tokens = 0;              // mean per item
  std::vector<crossover_entry> methods;  // fastest first
  std::optional<estimate> margin;        // the winner over the second; none with one method
  bool clear = false;                    // its interval lies above 1
};

// One cell per model, workload, batch size, generation length, seed, device and format.
// `across_models`: models are compared too (autoregressive against diffusion). `base`: label that
// speed-ups are taken over; empty: none.
std::vector<crossover_cell> crossover_cells(const std::vector<result_row>& rows,
                                            const std::string& base = "",
                                            bool across_models = false);

// | model | task | prompt | generated | batch | winner | tok/s | over the second | second | ... |
std::string crossover_markdown(const std::vector<crossover_cell>& cells);
// One JSON object a line, "kind": "crossover", for plots; described in results/README.md.
std::string crossover_jsonl(const std::vector<crossover_cell>& cells);

}  // namespace unmask
