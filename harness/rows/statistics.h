// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Statistics of repeated measurements. Spread is always shown with its number of samples, and a
// percentile only where the count supports it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace unmask {

double mean_of(const std::vector<double>& samples);       // NaN when empty
double deviation_of(const std::vector<double>& samples);  // n - 1 below; NaN under 2 samples

// Count, sum and sum of squares of a sample, which add up over items.
struct moments {
  std::int64_t n = 0;
  double sum = 0, squares = 0;
  void add(double v);
  moments& operator+=(const moments& other);
  double mean() const;       // NaN of nothing
  double deviation() const;  // over n; NaN of nothing
};

// Half width of the 95 % interval of the mean, by Student's t, divided by the mean. Infinity under
// two samples; NaN when the mean is not positive.
double relative_half_width(const std::vector<double>& samples);

// Exact order statistic: the smallest sample that is not below a share q of them.
double percentile_of(std::vector<double> samples, double q);
// True when the smallest and largest of n samples enclose the q-quantile with 95 % probability:
// 1 - q^n - (1 - q)^n >= 0.95. Median from 6 samples on, p95 from 59, p99 from 299.
bool percentile_earned(double q, std::size_t n);

struct interval {
  double low = 0, high = 0;
};
// Wilson's 95 % interval of a share; successes may be fractional (partial credit).
interval wilson_interval(double successes, std::size_t n);

// 95 % interval of a mean of scores from 0 to 1: Wilson's of right and wrong, Student's t of graded
// ones, cut at 0 and 1. Fewer than five graded scores, or ones that are all alike, say nothing: 0 to
// 1.
interval score_interval(const std::vector<double>& scores);

// Decides after each repetition whether a point has enough samples.
struct stopping_rule {
  std::int64_t minimum, maximum;
  double half_width;
  // Empty: go on. Otherwise why to stop: "half_width" or "max_repetitions". Before the fifth sample
  // the width is not looked at: of fewer a narrow one is chance too often.
  std::string reason(const std::vector<double>& samples) const;
};

}  // namespace unmask
