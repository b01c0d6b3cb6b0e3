// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What one changed setting is worth, in speed and in quality, from rows measured in turn on the
// same prompts ([run] paired = true).
//
// Verdicts hold an effect's 95 % interval against a margin that is stated beforehand: wholly inside
// it is SAME, wholly outside FASTER or SLOWER (BETTER or WORSE), anything else AMBIGUOUS. So noise
// alone, the same setting twice, is at most AMBIGUOUS save in the 5 % that every such interval
// errs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/analysis/estimates.h"
#include "harness/analysis/frame.h"
#include "harness/analysis/text_table.h"
#include "harness/analysis/verdict.h"

namespace unmask {

struct ablation_margins {
  double speed = 0.02;  // relative
  double score = 0.02;  // of 1: two points
};

// SAME, AMBIGUOUS, FASTER or SLOWER. A ratio's margin is the same factor both ways: 1 / (1 + m) to
// 1 + m. Without an interval always AMBIGUOUS.
verdict ratio_verdict(const estimate& ratio, double margin);
verdict score_verdict(const estimate& difference, double margin);  // BETTER, WORSE

struct ablation_line {
  std::string model, workload;
  std::int64_t batch_size = 1;
  std::string setting, base;  // label and what the sweep changed
  bool paired = false;        // one run, as many repetitions
  estimate speed;             // tokens per second of the setting over those of the base
  verdict speed_verdict = verdict::ambiguous;
  std::optional<estimate> score;  // setting - base; none where nothing is scored
  std::optional<verdict> score_verdict;
  std::optional<double> p;                  // exact McNemar, of right answers
  std::optional<std::size_t> same_answers;  // items with the same tokens, where items were kept
  std::size_t items = 0;
  // At batch size 1, where no item waits for another: time of the base over time of the setting,
  // item by item. Its interval is over items: what other prompts like these would see.
  std::optional<estimate> item_speed;
  std::size_t faster_items = 0;
};

// Every setting against its base in the same circumstances (model, workload, batch size, ...). The
// base of a label is its row without a sweep's change, else its first row in the plan; `base`
// given: the row of that label (or "label variation") for all. Usage error when there is none such.
std::vector<ablation_line> paired_comparison(const frame& rows, const ablation_margins& margins,
                                             const std::string& base = "");

// One factor of a factorial sweep: its level against its first level, averaged over the settings of
// all other factors (geometric mean of ratios, repetition by repetition).
struct main_effect {
  std::string model, workload, label;
  std::int64_t batch_size = 1;
  std::string factor, level, first_level;
  std::size_t settings = 0;  // of the other factors, averaged over
  estimate speed;
  verdict speed_verdict = verdict::ambiguous;
};
// Empty unless at least two factors vary within one label.
std::vector<main_effect> main_effects(const frame& rows, const ablation_margins& margins);

std::vector<text_table> ablation_tables(const std::vector<ablation_line>& lines,
                                        const std::vector<main_effect>& effects,
                                        const ablation_margins& margins);
std::string ablation_json(const std::vector<ablation_line>& lines,
                          const std::vector<main_effect>& effects, const ablation_margins& margins);

}  // namespace unmask
