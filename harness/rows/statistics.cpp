// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <boost/math/distributions/students_t.hpp>

namespace unmask {
namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t fewest_graded = 5;
constexpr std::int64_t first_look = 5;     // of the stopping rule, in samples
constexpr double z95 = 1.959963984540054;  // normal quantile of 0.975

}  // namespace

double mean_of(const std::vector<double>& samples) {
  if (samples.empty()) return nan_value;
  // Mean of deviations from the first sample: no cancellation, no overflow of the sum.
  double sum = 0;
  for (const double s : samples) sum += (s - samples.front()) / static_cast<double>(samples.size());
  return samples.front() + sum;
}

double deviation_of(const std::vector<double>& samples) {
  if (samples.size() < 2) return nan_value;
  const double mean = mean_of(samples);
  double sum = 0;
  for (const double s : samples) sum += (s - mean) * (s - mean);
  return std::sqrt(sum / static_cast<double>(samples.size() - 1));
}

void moments::add(double v) {
  ++n;
  sum += v;
  squares += v * v;
}

moments& moments::operator+=(const moments& other) {
  n += other.n;
  sum += other.sum;
  squares += other.squares;
  return *this;
}

double moments::mean() const {
  return n > 0 ? sum / static_cast<double>(n) : std::nan("");
}

double moments::deviation() const {
  return n > 0 ? std::sqrt(std::max(squares / static_cast<double>(n) - mean() * mean(), 0.0))
               : std::nan("");
}

double relative_half_width(const std::vector<double>& samples) {
  if (samples.size() < 2) return std::numeric_limits<double>::infinity();
  const double mean = mean_of(samples);
  if (!(mean > 0)) return nan_value;
  const auto n = static_cast<double>(samples.size());
  const boost::math::students_t distribution(n - 1);
  return boost::math::quantile(distribution, 0.975) * deviation_of(samples) / std::sqrt(n) / mean;
}

double percentile_of(std::vector<double> samples, double q) {
  if (samples.empty()) return nan_value;
  std::ranges::sort(samples);
  // The small term keeps 0.95 * 20 = 19.000000000000004 from asking for the 20th sample.
  const double rank = std::ceil(q * static_cast<double>(samples.size()) - 1e-9);
  const double last = static_cast<double>(samples.size());
  return samples[static_cast<std::size_t>(std::clamp(rank, 1.0, last)) - 1];
}

bool percentile_earned(double q, std::size_t n) {
  const auto count = static_cast<double>(n);
  return n > 0 && 1 - std::pow(q, count) - std::pow(1 - q, count) >= 0.95;
}

interval wilson_interval(double successes, std::size_t n) {
  if (n == 0) return {0, 1};
  const auto count = static_cast<double>(n);
  const double share = successes / count;
  const double scale = 1 + z95 * z95 / count;
  const double centre = (share + z95 * z95 / (2 * count)) / scale;
  const double half =
      z95 / scale *
      std::sqrt(std::max(0.0, share * (1 - share) / count + z95 * z95 / (4 * count * count)));
  // None and all of them give 0 and 1, which the arithmetic misses by its last bit.
  return {successes > 0 ? centre - half : 0.0, successes < count ? centre + half : 1.0};
}

interval score_interval(const std::vector<double>& scores) {
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  const bool graded = std::ranges::any_of(scores, [](double v) { return v != 0 && v != 1; });
  if (!graded) return wilson_interval(sum, scores.size());
  const double spread = deviation_of(scores);
  if (scores.size() < fewest_graded || !(spread > 0)) return {0, 1};
  const auto n = static_cast<double>(scores.size());
  const boost::math::students_t distribution(n - 1);
  const double half = boost::math::quantile(distribution, 0.975) * spread / std::sqrt(n);
  const double mean = mean_of(scores);
  return {std::max(0.0, mean - half), std::min(1.0, mean + half)};
}

std::string stopping_rule::reason(const std::vector<double>& samples) const {
  const auto n = static_cast<std::int64_t>(samples.size());
  if (n < minimum) return "";
  // Written so that NaN goes on measuring.
  if (n >= first_look && relative_half_width(samples) <= half_width) return "half_width";
  return n >= maximum ? "max_repetitions" : "";
}

}  // namespace unmask
