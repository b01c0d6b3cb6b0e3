// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/paired_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>

namespace unmask {
namespace {

constexpr std::size_t resamples = 10000;

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

// 95 % percentile interval of a statistic of n items drawn with replacement. The generator is the
// same on every machine, which the distributions of the standard library are not.
template <class Statistic>
interval bootstrap(std::size_t n, const Statistic& statistic) {
  std::mt19937_64 random(2026);
  std::vector<double> values(resamples);
  std::vector<std::size_t> drawn(n);
  for (double& value : values) {
    for (std::size_t& i : drawn) i = random() % n;
    value = statistic(drawn);
  }
  std::ranges::sort(values);
  return {percentile_of(values, 0.025), percentile_of(values, 0.975)};
}

bool is_binary(const std::vector<double>& scores) {
  return std::ranges::all_of(scores, [](double v) { return v == 0 || v == 1; });
}

}  // namespace

estimate paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  estimate e{std::nan(""), {}, n, "repetitions", "paired log-ratio, Student's t"};
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

estimate unpaired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  estimate e{std::nan(""), {}, std::min(a.size(), b.size()), "repetitions", "log-ratio, Welch's t"};
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

double mcnemar_p(std::size_t b, std::size_t c) {
  if (b + c == 0) return 1;
  const boost::math::binomial coin(static_cast<double>(b + c), 0.5);
  return std::min(1.0, 2 * boost::math::cdf(coin, static_cast<double>(std::min(b, c))));
}

estimate paired_share_difference(std::size_t both, std::size_t first, std::size_t second,
                                 std::size_t neither) {
  const std::size_t n = both + first + second + neither;
  estimate out{0, {}, n, "items", "paired shares, Newcombe"};
  if (n == 0) return out;
  const auto e = static_cast<double>(both), f = static_cast<double>(first),
             g = static_cast<double>(second), h = static_cast<double>(neither);
  const auto count = static_cast<double>(n);
  const double p = (e + f) / count, q = (e + g) / count;
  const interval of_p = wilson_interval(e + f, n), of_q = wilson_interval(e + g, n);
  const double product = (e + f) * (g + h) * (e + g) * (f + h);
  double agreement = e * h - f * g;
  if (agreement > 0) agreement = std::max(agreement - count / 2, 0.0);  // continuity correction
  const double phi = product > 0 ? agreement / std::sqrt(product) : 0;
  const auto arm = [&](double x, double y) {
    return std::sqrt(std::max(0.0, x * x - 2 * phi * x * y + y * y));
  };
  out.value = p - q;
  out.range = interval{out.value - arm(p - of_p.low, of_q.high - q),
                       out.value + arm(of_p.high - p, q - of_q.low)};
  return out;
}

estimate share_difference(double a, std::size_t n_a, double b, std::size_t n_b) {
  estimate out{a - b, {}, std::min(n_a, n_b), "items", "independent shares, Newcombe"};
  if (n_a == 0 || n_b == 0) return out;
  const interval i = wilson_interval(a * static_cast<double>(n_a), n_a);
  const interval j = wilson_interval(b * static_cast<double>(n_b), n_b);
  out.range = interval{out.value - std::hypot(a - i.low, j.high - b),
                       out.value + std::hypot(i.high - a, b - j.low)};
  return out;
}

estimate paired_score_difference(const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t n = std::min(a.size(), b.size());
  std::vector<double> d(n);
  for (std::size_t i = 0; i < n; ++i) d[i] = a[i] - b[i];
  const bool no_item_differs = std::ranges::all_of(d, [](double v) { return v == 0; });
  if (n == 0 || (is_binary(a) && is_binary(b)) || no_item_differs) {
    // Partial credit that agrees item by item counts as right from one half on.
    std::size_t cells[2][2] = {{0, 0}, {0, 0}};
    for (std::size_t i = 0; i < n; ++i) ++cells[a[i] >= 0.5][b[i] >= 0.5];
    return paired_share_difference(cells[1][1], cells[1][0], cells[0][1], cells[0][0]);
  }
  estimate out{mean_of(d), {}, n, "items", "paired bootstrap"};
  out.range = bootstrap(n, [&](const std::vector<std::size_t>& drawn) {
    double sum = 0;
    for (const std::size_t i : drawn) sum += d[i];
    return sum / static_cast<double>(n);
  });
  return out;
}

estimate ratio_over_items(const item_shares& above, const item_shares& below) {
  const auto ratio = [&](const auto& places) {
    double part[2] = {}, whole[2] = {};
    for (const std::size_t i : places) {
      part[0] += above[i].first, whole[0] += above[i].second;
      part[1] += below[i].first, whole[1] += below[i].second;
    }
    return (part[0] / whole[0]) / (part[1] / whole[1]);
  };
  std::vector<std::size_t> every(above.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  return {ratio(every), bootstrap(above.size(), ratio), above.size(), "items",
          "paired bootstrap over items"};
}

estimate share_over_items(const item_shares& all) {
  item_shares items = all;
  std::erase_if(items, [](const auto& i) { return !(i.second > 0); });
  const auto share = [&](const auto& places) {
    double part = 0, whole = 0;
    for (const std::size_t i : places) {
      part += items[i].first;
      whole += items[i].second;
    }
    return part / whole;
  };
  std::vector<std::size_t> every(items.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  estimate out{items.empty() ? std::nan("") : share(every), {}, items.size(), "items", ""};
  if (items.empty()) return out;
  const bool same = std::ranges::all_of(items, [&](const auto& i) {
    return i.first / i.second == items.front().first / items.front().second;
  });
  out.how = same ? "Wilson, of items" : "bootstrap over items";
  out.range = same ? wilson_interval(out.value * static_cast<double>(items.size()), items.size())
                   : bootstrap(items.size(), share);
  return out;
}

std::optional<interval> corrected_for(std::size_t points, const estimate& e, bool logs) {
  if (!e.range || points < 2 || e.range->low == e.range->high) return e.range;
  const double q = 1 - 0.025 / static_cast<double>(points);
  double wider = 0;
  if (e.unit_of_n == "items" || e.n < 2) {
    const boost::math::normal normal;
    wider = boost::math::quantile(normal, q) / boost::math::quantile(normal, 0.975);
  } else {
    const boost::math::students_t t(static_cast<double>(e.n - 1));
    wider = boost::math::quantile(t, q) / boost::math::quantile(t, 0.975);
  }
  if (logs) {
    return interval{e.value * std::pow(e.range->low / e.value, wider),
                    e.value * std::pow(e.range->high / e.value, wider)};
  }
  return interval{e.value - wider * (e.value - e.range->low),
                  e.value + wider * (e.range->high - e.value)};
}

}  // namespace unmask
