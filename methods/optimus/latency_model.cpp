// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/optimus/latency_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "kernels/error.h"

namespace unmask {
namespace {

constexpr double largest_mape = 0.05;
constexpr std::size_t points_per_piece = 3;
using four = std::array<double, 4>;

// Ascending, one point per x: the median of its times.
std::vector<latency_sample> merged(std::vector<latency_sample> samples) {
  if (samples.empty()) throw usage_error("latency model: no samples");
  for (const latency_sample& s : samples) {
    if (!(s.tokens > 0) || !(s.seconds > 0) || !std::isfinite(s.tokens + s.seconds)) {
      throw usage_error("latency model: a sample of " + std::to_string(s.tokens) + " tokens in " +
                        std::to_string(s.seconds) + " s; both must be positive");
    }
  }
  std::sort(samples.begin(), samples.end(), [](const latency_sample& a, const latency_sample& b) {
    return a.tokens != b.tokens ? a.tokens < b.tokens : a.seconds < b.seconds;
  });
  std::vector<latency_sample> points;
  for (std::size_t i = 0; i < samples.size();) {
    std::size_t j = i;
    while (j < samples.size() && samples[j].tokens == samples[i].tokens) ++j;
    const std::size_t n = j - i;
    const double median = n % 2 == 1
                              ? samples[i + n / 2].seconds
                              : (samples[i + n / 2 - 1].seconds + samples[i + n / 2].seconds) / 2;
    points.push_back({samples[i].tokens, median});
    i = j;
  }
  return points;
}

// Solve the symmetric system over the variables in `active` by elimination with pivoting; false
// when it is singular.
bool solve(const std::array<four, 4>& normal, const four& right, unsigned active, four& x) {
  std::array<std::array<double, 5>, 4> m{};
  std::array<int, 4> of{};
  int n = 0;
  for (int i = 0; i < 4; ++i) {
    if ((active >> i & 1U) != 0) of[static_cast<std::size_t>(n++)] = i;
  }
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) m[at(i)][at(j)] = normal[at(of[at(i)])][at(of[at(j)])];
    m[at(i)][4] = right[at(of[at(i)])];
  }
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int r = c + 1; r < n; ++r) {
      if (std::abs(m[at(r)][at(c)]) > std::abs(m[at(pivot)][at(c)])) pivot = r;
    }
    if (std::abs(m[at(pivot)][at(c)]) < 1e-12 * std::abs(normal[at(of[at(c)])][at(of[at(c)])])) {
      return false;
    }
    std::swap(m[at(pivot)], m[at(c)]);
    for (int r = 0; r < n; ++r) {
      if (r == c) continue;
      const double factor = m[at(r)][at(c)] / m[at(c)][at(c)];
      for (int k = c; k < 5; ++k) m[at(r)][at(k)] -= factor * m[at(c)][at(k)];
    }
  }
  x = {};
  for (int i = 0; i < n; ++i) x[at(of[at(i)])] = m[at(i)][4] / m[at(i)][at(i)];
  return true;
}

// Least squares with all four coefficients >= 0: the best of the 15 sets of positive ones.
double non_negative(const std::vector<four>& rows, const std::vector<double>& want, four& best) {
  std::array<four, 4> normal{};
  four right{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < 4; ++i) {
      right[i] += rows[r][i] * want[r];
      for (std::size_t j = 0; j < 4; ++j) normal[i][j] += rows[r][i] * rows[r][j];
    }
  }
  double least = 1e300;
  for (unsigned active = 1; active < 16; ++active) {
    four x{};
    if (!solve(normal, right, active, x)) continue;
    if (*std::min_element(x.begin(), x.end()) < 0) continue;
    double error = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double y = -want[r];
      for (std::size_t i = 0; i < 4; ++i) y += rows[r][i] * x[i];
      error += y * y;
    }
    if (error < least) {
      least = error;
      best = x;
    }
  }
  return least;
}

// Basis of the slopes; `convex`: of the increments of slope.
four basis(double x, double k1, double k2, bool convex) {
  if (convex) return {1, x, std::max(0.0, x - k1), std::max(0.0, x - k2)};
  return {1, std::min(x, k1), std::clamp(x - k1, 0.0, k2 - k1), std::max(0.0, x - k2)};
}

}  // namespace

latency_model latency_model::roofline(double floor_seconds, double seconds_per_token) {
  latency_model m;
  m.report_.kind = "roofline";
  m.report_.intercept = floor_seconds;
  m.report_.slope = {0, 0, seconds_per_token};
  return m;
}

latency_model latency_model::table(std::vector<latency_sample> samples) {
  latency_model m;
  m.report_.kind = "table";
  m.points_ = merged(std::move(samples));
  return m;
}

latency_model latency_model::pwl3(std::vector<latency_sample> samples, bool convex) {
  latency_model m = table(std::move(samples));
  const std::vector<latency_sample>& p = m.points_;
  if (p.size() < 3 * points_per_piece) {
    m.report_.note = "only " + std::to_string(p.size()) + " different x: interpolating";
    return m;
  }
  fit_report fit;
  fit.kind = "pwl3";
  double least = 1e300;
  std::vector<four> rows(p.size());
  const std::vector<double> ones(p.size(), 1.0);  // T(x) / T = 1: relative errors
  for (std::size_t i = points_per_piece; i + 2 * points_per_piece <= p.size(); ++i) {
    for (std::size_t j = i + points_per_piece; j + points_per_piece <= p.size(); ++j) {
      const double k1 = std::sqrt(p[i - 1].tokens * p[i].tokens);
      const double k2 = std::sqrt(p[j - 1].tokens * p[j].tokens);
      for (std::size_t r = 0; r < p.size(); ++r) {
        rows[r] = basis(p[r].tokens, k1, k2, convex);
        for (double& x : rows[r]) x /= p[r].seconds;
      }
      four a{};
      const double error = non_negative(rows, ones, a);
      if (error >= least) continue;
      least = error;
      fit.knot = {k1, k2};
      fit.intercept = a[0];
      fit.slope = {a[1], a[2], a[3]};
      if (convex) fit.slope = {a[1], a[1] + a[2], a[1] + a[2] + a[3]};
    }
  }
  latency_model fitted;
  fitted.report_ = fit;
  for (const latency_sample& s : p) {
    const double error = std::abs(fitted.seconds(s.tokens) - s.seconds) / s.seconds;
    fitted.report_.mape += error / static_cast<double>(p.size());
    fitted.report_.max_error = std::max(fitted.report_.max_error, error);
  }
  if (fitted.report_.mape <= largest_mape) return fitted;
  fitted.report_.kind = "table";
  fitted.report_.note = "three pieces miss by " + std::to_string(100 * fitted.report_.mape) +
                        " % on average: interpolating";
  m.report_ = fitted.report_;
  return m;
}

double latency_model::seconds(double x) const {
  if (report_.kind == "roofline") return std::max(report_.intercept, report_.slope[2] * x);
  if (report_.kind == "pwl3") {
    const four b = basis(x, report_.knot[0], report_.knot[1], false);
    return report_.intercept + report_.slope[0] * b[1] + report_.slope[1] * b[2] +
           report_.slope[2] * b[3];
  }
  if (points_.size() == 1 || x <= points_.front().tokens) return points_.front().seconds;
  std::size_t i = 1;
  while (i + 1 < points_.size() && points_[i].tokens < x) ++i;
  const latency_sample &a = points_[i - 1], &b = points_[i];
  return a.seconds + (b.seconds - a.seconds) * (x - a.tokens) / (b.tokens - a.tokens);
}

std::vector<latency_sample> parse_latency_samples(const std::string& owner,
                                                  const std::string& text) {
  std::vector<latency_sample> samples;
  const char* p = text.data();
  const char* end = p + text.size();
  const auto number = [&](char closing) {
    double value = 0;
    const auto [next, failure] = std::from_chars(p, end, value);
    const bool closed = next == end ? closing == ',' : *next == closing;
    if (failure != std::errc{} || !closed) {
      throw usage_error(owner + ": latency samples are 'tokens:seconds,...', not '" + text + "'");
    }
    p = next == end ? end : next + 1;
    return value;
  };
  while (p < end) {
    latency_sample s;
    s.tokens = number(':');
    s.seconds = number(',');
    samples.push_back(s);
  }
  return samples;
}

std::string to_text(const std::vector<latency_sample>& samples) {
  const auto shortest = [](double value) {
    char buffer[64];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  };
  std::string text;
  for (const latency_sample& s : samples) {
    text += (text.empty() ? "" : ",") + shortest(s.tokens) + ":" + shortest(s.seconds);
  }
  return text;
}

}  // namespace unmask
