// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A row's score as tables show it (the package: harness/python/unmask/rows/scores.py).
#pragma once

#include "harness/rows/row.h"
#include "harness/rows/statistics.h"

namespace unmask {

struct shown_score {
  double mean = 0;  // of 0 to 1
  interval range;   // 95 %
  std::int64_t n = 0, undecided = 0;
};

// A row keeps the mean of the items that were decided. An answer that nobody can judge was given all
// the same, so it counts: as wrong in the mean and the lower end, as right in the upper end.
shown_score score_with_undecided(const score_record& score);

// Whether the items have right answers; else the score is a likelihood, another quantity.
bool has_right_answers(const result_row& row);

}  // namespace unmask
