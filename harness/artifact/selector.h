// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Picking rows by what was run, and values out of them: the vocabulary of claims and of layouts.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/artifact/paired_statistics.h"
#include "harness/experiment/row.h"

namespace unmask {

// Keys: label method preset model workload variation batch_size gen_length seed device format kind,
// params.NAME, serve.NAME. Usage error beginning with `where` for any other.
void check_row_key(const std::string& key, const std::string& where);
// The setting of a row as text ("0.9", "word_problem"); nothing when the row does not have it.
std::optional<std::string> setting_of(const result_row& row, const std::string& key);
// As a number; nothing when it is none.
std::optional<double> number_of(const result_row& row, const std::string& key);

struct row_selector {
  std::map<std::string, std::vector<parameter_value>> keys;  // any of the values; none: all rows
  std::string metric;                                        // empty: that of the claim
  bool matches(const result_row& row) const;
  std::string text() const;  // "label = FOCUS, batch_size = 1|4"
};

// Later rows of a point replace earlier ones; PASS and NOT_VERIFIED only.
std::vector<result_row> believable_rows(const std::vector<result_row>& rows);

// What two rows must agree in to be compared: model, workload, batch_size, gen_length, seed,
// device, format and every key of serve, except `free` ones.
std::string circumstance_of(const result_row& row, const std::set<std::string>& free);

struct row_value {
  double value = 0;
  origin from = origin::counted;
};
// "score" (mean, 0 to 1), a metric, a number in a probe by its path, "probes.importance.auc[1]", or
// in what a method measured to calibrate itself, "calibration.mape". Nothing when the row does not
// have it.
std::optional<row_value> value_in(const result_row& row, const std::string& metric);

// left/right of a metric. Times and rates: from the samples, paired where both rows come from one
// run with as many repetitions. The serving capacity: from the spread over its seeds. Counted and
// analytic values are exact: low = high = value. Other measured values have no interval. Nothing
// when either is missing or right is 0.
std::optional<estimate> ratio_of(const result_row& left, const result_row& right,
                                 const std::string& left_metric, const std::string& right_metric);
// left - right of the scores; paired where both rows kept the same items.
std::optional<estimate> score_difference_of(const result_row& left, const result_row& right);
// One row's value with its interval: Student's of times, Wilson's of scores.
std::optional<estimate> estimate_of(const result_row& row, const std::string& metric);

// "1.63 [1.60, 1.66], n = 5 repetitions", digits by size.
std::string estimate_text(const estimate& e);
std::string short_number(double value);

}  // namespace unmask
