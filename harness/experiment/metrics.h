// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Metrics that are made from a list rather than by hand: counters (harness/decode/counters.h) and
// their ratios. results/README.md documents them by the lines of metric_lines().
#pragma once

#include <string>
#include <vector>

namespace unmask::inline experiment {

// `over` / `under`, both metrics of the same row; absent where one is, or `under` is 0.
struct ratio_spec {
  const char *name, *over, *under, *unit, *meaning;
};
const std::vector<ratio_spec>& ratio_list();

// Rows of a Markdown table, name | unit | from | meaning, one per counter and ratio.
std::vector<std::string> metric_lines();

}  // namespace unmask::experiment
