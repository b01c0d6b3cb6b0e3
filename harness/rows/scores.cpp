// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/scores.h"

namespace unmask {

shown_score score_with_undecided(const score_record& score) {
  if (score.undecided <= 0) return {score.mean, {score.low, score.high}, score.n, 0};
  const std::int64_t n = score.n + score.undecided;
  const double right = score.mean * static_cast<double>(score.n);
  const auto all = static_cast<std::size_t>(n);
  return {right / static_cast<double>(n),
          {wilson_interval(right, all).low,
           wilson_interval(right + static_cast<double>(score.undecided), all).high},
          n,
          score.undecided};
}

bool has_right_answers(const result_row& row) {
  return row.workload.rater.empty();
}

}  // namespace unmask
