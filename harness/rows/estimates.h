// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the plain table and the verdict of a row need to know of speeds. Everything else that is
// estimated from rows the Python package estimates (harness/python).
#pragma once

#include <optional>
#include <vector>

#include "harness/rows/row.h"
#include "harness/rows/statistics.h"

namespace unmask {

// Half width, relative, from which on a speed is NOISY: no verdict rests on it.
inline constexpr double noisy_half_width = 0.25;
// The row was timed more than once and its speed is known to no better than that.
bool is_noisy(const result_row& row);

// The 95 % interval of a row's score. Rows of before 2026-11-29 have Wilson's, which is of right and
// wrong alone: of graded scores they have none.
std::optional<interval> score_range(const score_record& score);

struct speed_ratio {
  double value = 0;
  std::optional<interval> range;  // 95 %; none: timed once
};
// a/b from n pairs: exp of the mean of log(a_i / b_i), interval by Student's t on the logs. Under
// two pairs, or with a sample that is not positive, there is no interval.
speed_ratio paired_ratio(const std::vector<double>& a, const std::vector<double>& b);
// From separate samples: exp of the difference of mean logs, interval by Welch's t.
speed_ratio unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b);

// left/right of output tokens per second, from the repetitions: paired where both rows come from one
// run with as many of them. Nothing where one of them has no speed.
std::optional<speed_ratio> speed_over(const result_row& left, const result_row& right);

}  // namespace unmask
