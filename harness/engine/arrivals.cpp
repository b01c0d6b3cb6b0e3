// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/engine/arrivals.h"

#include <cmath>

#include "harness/base/error.h"
#include "kernels/random.h"

namespace unmask {
namespace {

constexpr std::uint64_t arrival_stream = 0xA221;

std::vector<double> cumulated(std::vector<double> gaps) {
  double time = 0;
  for (double& gap : gaps) gap = time += gap;
  return gaps;
}

void check_rate(double rate) {
  if (!(rate > 0) || !std::isfinite(rate)) {
    throw usage_error("arrivals: the rate must be a positive number of requests per second");
  }
}

}  // namespace

std::vector<double> poisson_arrivals(double rate, std::size_t count, std::uint64_t seed) {
  check_rate(rate);
  const std::uint64_t key = stream_key(seed, arrival_stream);
  std::vector<double> gaps(count);
  for (std::size_t i = 0; i < count; ++i) gaps[i] = -std::log(uniform_open(key, i)) / rate;
  return cumulated(std::move(gaps));
}

std::vector<double> gamma_arrivals(double rate, double cv, std::size_t count, std::uint64_t seed) {
  check_rate(rate);
  if (!(cv >= 0) || !std::isfinite(cv)) {
    throw usage_error("arrivals: the coefficient of variation must not be negative");
  }
  const std::uint64_t key = stream_key(seed, arrival_stream, 1);
  std::vector<double> gaps(count, 1 / rate);
  for (std::size_t i = 0; i < count && cv > 0; ++i) {
    gaps[i] = gamma_draw(1 / (cv * cv), key, i) / rate;
  }
  return cumulated(std::move(gaps));
}

// Box-Muller on two draws of one sub-stream.
double normal_draw(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t own = stream_key(key, index);
  constexpr double two_pi = 6.283185307179586;
  return std::sqrt(-2 * std::log(uniform_open(own, 0))) * std::cos(two_pi * uniform_open(own, 1));
}

// Marsaglia and Tsang (2000), "A simple method for generating gamma variables"; shapes below 1 by
// their relation G(a) = G(a + 1) U^(1/a).
double gamma_draw(double shape, std::uint64_t key, std::uint64_t index) {
  const std::uint64_t own = stream_key(key, index, 7);
  const double a = shape < 1 ? shape + 1 : shape;
  const double d = a - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (std::uint64_t attempt = 0;; ++attempt) {
    const double x = normal_draw(own, attempt);
    const double v = std::pow(1 + c * x, 3);
    const double u = uniform_open(own, (std::uint64_t{1} << 32) + attempt);
    if (v <= 0 || std::log(u) >= x * x / 2 + d - d * v + d * std::log(v)) continue;
    const double low =
        shape < 1 ? std::pow(uniform_open(own, std::uint64_t{1} << 33), 1 / shape) : 1;
    return d * v * low / shape;
  }
}

double lognormal_draw(double mean, double deviation, std::uint64_t key, std::uint64_t index) {
  const double variance = std::log1p(deviation * deviation / (mean * mean));
  return std::exp(std::log(mean) - variance / 2 + std::sqrt(variance) * normal_draw(key, index));
}

}  // namespace unmask
