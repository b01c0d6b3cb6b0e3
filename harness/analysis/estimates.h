// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Values of rows, and what two rows differ by, each with the interval that its kind allows.
#pragma once

#include <optional>
#include <string>

#include "harness/analysis/paired_statistics.h"
#include "harness/analysis/row.h"

namespace unmask {

// Half width, relative, from which on a speed is NOISY: no verdict rests on it.
inline constexpr double noisy_half_width = 0.25;
// The row was timed more than once and its speed is known to no better than that.
bool is_noisy(const result_row& row);
bool is_speed(const std::string& metric);  // times and rates of a clock
// Speeds, shares of the time and fitted times of a forward: what other load on the machine changes.
bool reads_the_clock(const std::string& metric);

struct row_value {
  double value = 0;
  origin from = origin::counted;
};
// "score" (mean, 0 to 1), a metric, a number in a probe by its path, "probes.importance.auc[1]", or
// in what a method measured to calibrate itself, "calibration.mape". Nothing when the row does not
// have it.
std::optional<row_value> value_in(const result_row& row, const std::string& metric);

// left/right of a metric. Times and rates: from the samples, paired where both rows come from one
// run with as many repetitions. The serving capacity: paired by the seeds of its search where both
// met the same arrivals, else from the spread over them. Counted and analytic values are exact for
// these prompts: low = high = value. Other measured values have no interval, nor have shares of a
// probe, which are of a sample of items. Nothing when either is missing or right is 0.
std::optional<estimate> ratio_of(const result_row& left, const result_row& right,
                                 const std::string& left_metric, const std::string& right_metric);
// left - right of the scores; paired where both rows kept the same items.
std::optional<estimate> score_difference_of(const result_row& left, const result_row& right);
// Parts and wholes by item behind a share of a probe, kept as PATH_items; empty where they were not.
item_shares shares_of(const result_row& row, const std::string& metric);
// Scores of the items that both rows kept, left and right; empty unless both kept the same items.
std::pair<std::vector<double>, std::vector<double>> paired_scores(const result_row& left,
                                                                  const result_row& right);
// One row's value with its interval: Student's of times, Wilson's of scores.
std::optional<estimate> estimate_of(const result_row& row, const std::string& metric);

// "1.63 [1.60, 1.66], n = 5 repetitions", digits by size.
std::string estimate_text(const estimate& e);
std::string short_number(double value);

}  // namespace unmask
