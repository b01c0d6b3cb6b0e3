// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/rows/estimates.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/students_t.hpp>

namespace unmask {
namespace {

double t_quantile(double degrees) {
  return boost::math::quantile(boost::math::students_t(degrees), 0.975);
}

bool all_positive(const std::vector<double>& samples) {
  return std::ranges::all_of(samples, [](double v) { return std::isfinite(v) && v > 0; });
}

std::vector<double> logs(std::vector<double> samples) {
  for (double& v : samples) v = std::log(v);
  return samples;
}

std::vector<double> speeds_of(const result_row& row) {
  std::vector<double> speeds = row.samples.seconds;
  const double tokens = row.value_of("output_tokens").value_or(0);
  for (double& v : speeds) v = tokens / v;
  return speeds;
}

}  // namespace

bool is_noisy(const result_row& row) {
  return row.samples.seconds.size() > 1 && row.samples.half_width > noisy_half_width;
}

std::optional<interval> score_range(const score_record& score) {
  const auto n = static_cast<double>(score.n);
  const double total = score.mean * n;
  const bool graded = std::abs(total - static_cast<double>(score.exact)) > 1e-6 * n;
  const interval old = wilson_interval(total, static_cast<std::size_t>(score.n));
  if (graded && std::abs(score.low - old.low) < 1e-9) return {};
  return interval{score.low, score.high};
}

speed_ratio paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  speed_ratio e{std::nan(""), {}};
  if (n == 0 || !all_positive(a) || !all_positive(b)) return e;
  std::vector<double> d(n);
  for (std::size_t i = 0; i < n; ++i) d[i] = std::log(a[i] / b[i]);
  const double mean = mean_of(d);
  e.value = std::exp(mean);
  if (n < 2) return e;
  const auto count = static_cast<double>(n);
  const double half = t_quantile(count - 1) * deviation_of(d) / std::sqrt(count);
  e.range = interval{std::exp(mean - half), std::exp(mean + half)};
  return e;
}

speed_ratio unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  speed_ratio e{std::nan(""), {}};
  if (a.empty() || b.empty() || !all_positive(a) || !all_positive(b)) return e;
  const std::vector<double> x = logs(a), y = logs(b);
  const double mean = mean_of(x) - mean_of(y);
  e.value = std::exp(mean);
  if (x.size() < 2 || y.size() < 2) return e;
  const auto nx = static_cast<double>(x.size()), ny = static_cast<double>(y.size());
  const double vx = std::pow(deviation_of(x), 2) / nx, vy = std::pow(deviation_of(y), 2) / ny;
  double half = 0;
  if (vx + vy > 0) {
    const double degrees =
        std::pow(vx + vy, 2) / (vx * vx / (nx - 1) + vy * vy / (ny - 1));  // Welch-Satterthwaite
    half = t_quantile(degrees) * std::sqrt(vx + vy);
  }
  e.range = interval{std::exp(mean - half), std::exp(mean + half)};
  return e;
}

std::optional<speed_ratio> speed_over(const result_row& left, const result_row& right) {
  const auto a = left.value_of("tokens_per_second"), b = right.value_of("tokens_per_second");
  if (!a || !b || !std::isfinite(*a) || !std::isfinite(*b) || *b == 0) return {};
  const std::vector<double> x = speeds_of(left), y = speeds_of(right);
  if (!x.empty() && !y.empty()) {
    const bool pairs = x.size() == y.size() && left.run_id == right.run_id;
    const speed_ratio e = pairs ? paired_ratio(x, y) : unpaired_ratio(x, y);
    if (std::isfinite(e.value)) return e;
  }
  return speed_ratio{*a / *b, {}};
}

}  // namespace unmask
