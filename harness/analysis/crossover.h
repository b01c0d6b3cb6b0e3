// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which method wins where: over batch size, prompt length and generation length.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/analysis/estimates.h"
#include "harness/analysis/frame.h"
#include "harness/analysis/text_table.h"

namespace unmask {

struct crossover_entry {
  std::string label;  // and what the sweep changed, run settings aside
  double tokens_per_second = 0;
  std::optional<interval> range;
  std::optional<estimate> speedup;        // over the base, where there is one
  std::optional<double> selection_share;  // of step time: choosing rows and keys, evicting
  std::optional<double> score;
  bool worse = false;  // answers worse than crossover_rule allows: cannot win
  bool synthetic = false;
};

struct crossover_rule {
  std::string base;            // label that speed-ups and scores are taken against; empty: none
  bool across_models = false;  // models are compared too (autoregressive against diffusion)
  // What a method may lose of the score of the base (without a base: of the best score of the cell)
  // and still win: a method that answers wrongly is not fast. 1: whatever it answers.
  double score_within = 0.1;
};

struct crossover_cell {
  std::string model, workload;  // model empty: several were compared
  std::int64_t batch_size = 1, gen_length = 0;
  double prompt_tokens = 0;              // mean per item
  std::vector<crossover_entry> methods;  // fastest first, those that answer worse behind the others
  std::optional<estimate> margin;        // the winner over the second; none with one method
  bool clear = false;                    // its interval lies above 1
};

// One cell per model, workload, batch size, generation length, seed, device and format.
std::vector<crossover_cell> crossover_cells(const frame& rows, const crossover_rule& rule = {});

// A line a cell, with the methods that are faster than the winner and answer worse.
text_table crossover_table(const std::vector<crossover_cell>& cells);
// An array of cells; described in results/README.md.
std::string crossover_json(const std::vector<crossover_cell>& cells);

}  // namespace unmask
