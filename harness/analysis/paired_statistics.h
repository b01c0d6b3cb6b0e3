// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Comparisons of two settings: ratios of times, differences of scores, each with its 95 % interval.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/analysis/statistics.h"

namespace unmask {

// An estimate, and how it was come by. No interval: the quantity was counted (exact) or seen once.
struct estimate {
  double value = 0;
  std::optional<interval> range;  // 95 %
  std::size_t n = 0;
  std::string unit_of_n;  // repetitions, items
  std::string how;        // "paired log-ratio t", ...
};

// a/b from n pairs: exp of the mean of log(a_i / b_i), interval by Student's t on the logs. Under
// two pairs, or with a sample that is not positive, there is no interval.
estimate paired_ratio(const std::vector<double>& a, const std::vector<double>& b);
// From separate samples: exp of the difference of mean logs, interval by Welch's t.
estimate unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b);

// Two-sided exact McNemar test: `b` items only the first got right, `c` only the second. 1 when
// there are none.
double mcnemar_p(std::size_t b, std::size_t c);

// Difference of two shares of the same n items, with the interval of Newcombe, Statistics in
// Medicine 17 (1998) 2635, method 10. both: right in both; first, second: in one only.
estimate paired_share_difference(std::size_t both, std::size_t first, std::size_t second,
                                 std::size_t neither);
// Of independent shares (means of scores from 0 to 1): Newcombe, ibid. 873, method 10.
estimate share_difference(double mean_a, std::size_t n_a, double mean_b, std::size_t n_b);

// Mean of a_i - b_i; percentile bootstrap over items, 10000 resamples of a fixed generator. When no
// item differs a bootstrap would claim certainty: then the interval is that of paired shares.
estimate paired_score_difference(const std::vector<double>& a, const std::vector<double>& b);

// Share of a whole that lies in parts over items (tokens of requests): sum of parts over sum of
// wholes; percentile bootstrap over items, whose tokens are not independent of each other. Where all
// items agree, Wilson's interval of as many items.
using item_shares = std::vector<std::pair<double, double>>;  // part, whole of each item
estimate share_over_items(const item_shares& items);
// One such share over another of the same items; percentile bootstrap that draws both together.
estimate ratio_over_items(const item_shares& above, const item_shares& below);

// The interval that the best (or worst) of `points` needs for the same 5 % of all of them: each at
// 1 - 0.05 / points (Bonferroni), the distances to the ends of `e` widened by the ratio of the
// quantiles, Student's for repetitions and seeds, normal for items. logs: distances of logarithms.
std::optional<interval> corrected_for(std::size_t points, const estimate& e, bool logs);

}  // namespace unmask
