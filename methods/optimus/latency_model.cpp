// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "methods/optimus/latency_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "harness/base/error.h"

namespace unmask {
namespace {

constexpr double largest_mape = 0.05;
constexpr std::size_t points_per_piece = 3;
constexpr std::size_t terms = 5;  // intercept, three slopes, per request
using row_of_terms = std::array<double, terms>;

// Ascending, one point per x and number of requests: the median of its times.
std::vector<latency_point> merged(std::vector<latency_point> samples) {
  if (samples.empty()) throw usage_error("latency model: no samples");
  for (const latency_point& s : samples) {
    if (!(s.tokens > 0) || !(s.seconds > 0) || !std::isfinite(s.tokens + s.seconds)) {
      throw usage_error("latency model: a sample of " + std::to_string(s.tokens) + " tokens in " +
                        std::to_string(s.seconds) + " s; both must be positive");
    }
  }
  std::sort(samples.begin(), samples.end(), [](const latency_point& a, const latency_point& b) {
    return std::tie(a.tokens, a.requests, a.seconds) < std::tie(b.tokens, b.requests, b.seconds);
  });
  std::vector<latency_point> points;
  for (std::size_t i = 0; i < samples.size();) {
    std::size_t j = i;
    while (j < samples.size() && samples[j].tokens == samples[i].tokens &&
           samples[j].requests == samples[i].requests) {
      ++j;
    }
    const std::size_t n = j - i;
    const double median = n % 2 == 1
                              ? samples[i + n / 2].seconds
                              : (samples[i + n / 2 - 1].seconds + samples[i + n / 2].seconds) / 2;
    points.push_back({samples[i].tokens, median, samples[i].requests});
    i = j;
  }
  return points;
}

// Solve the symmetric system over the variables in `active` by elimination with pivoting; false
// when it is singular.
bool solve(const std::array<row_of_terms, terms>& normal, const row_of_terms& right,
           unsigned active, row_of_terms& x) {
  std::array<std::array<double, terms + 1>, terms> m{};
  std::array<int, terms> of{};
  int n = 0;
  for (int i = 0; i < static_cast<int>(terms); ++i) {
    if ((active >> i & 1U) != 0) of[static_cast<std::size_t>(n++)] = i;
  }
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) m[at(i)][at(j)] = normal[at(of[at(i)])][at(of[at(j)])];
    m[at(i)][terms] = right[at(of[at(i)])];
  }
  for (int c = 0; c < n; ++c) {
    int pivot = c;
    for (int r = c + 1; r < n; ++r) {
      if (std::abs(m[at(r)][at(c)]) > std::abs(m[at(pivot)][at(c)])) pivot = r;
    }
    if (std::abs(m[at(pivot)][at(c)]) <= 1e-12 * std::abs(normal[at(of[at(c)])][at(of[at(c)])])) {
      return false;
    }
    std::swap(m[at(pivot)], m[at(c)]);
    for (int r = 0; r < n; ++r) {
      if (r == c) continue;
      const double factor = m[at(r)][at(c)] / m[at(c)][at(c)];
      for (std::size_t k = at(c); k <= terms; ++k) m[at(r)][k] -= factor * m[at(c)][k];
    }
  }
  x = {};
  for (int i = 0; i < n; ++i) x[at(of[at(i)])] = m[at(i)][terms] / m[at(i)][at(i)];
  return true;
}

// Least squares with all coefficients >= 0: the best of all sets of positive ones.
double non_negative(const std::vector<row_of_terms>& rows, const std::vector<double>& want,
                    row_of_terms& best) {
  std::array<row_of_terms, terms> normal{};
  row_of_terms right{};
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t i = 0; i < terms; ++i) {
      right[i] += rows[r][i] * want[r];
      for (std::size_t j = 0; j < terms; ++j) normal[i][j] += rows[r][i] * rows[r][j];
    }
  }
  double least = 1e300;
  for (unsigned active = 1; active < 1U << terms; ++active) {
    row_of_terms x{};
    if (!solve(normal, right, active, x)) continue;
    if (*std::min_element(x.begin(), x.end()) < 0) continue;
    double error = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      double y = -want[r];
      for (std::size_t i = 0; i < terms; ++i) y += rows[r][i] * x[i];
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
row_of_terms basis(double x, double k1, double k2, bool convex, double requests) {
  if (convex) return {1, x, std::max(0.0, x - k1), std::max(0.0, x - k2), requests};
  return {1, std::min(x, k1), std::clamp(x - k1, 0.0, k2 - k1), std::max(0.0, x - k2), requests};
}

std::vector<double> different_tokens(const std::vector<latency_point>& points) {
  std::vector<double> x;
  for (const latency_point& p : points) {
    if (x.empty() || x.back() != p.tokens) x.push_back(p.tokens);
  }
  return x;
}

}  // namespace

latency_model latency_model::roofline(double floor_seconds, double seconds_per_token) {
  latency_model m;
  m.report_.kind = "roofline";
  m.report_.intercept = floor_seconds;
  m.report_.slope = {0, 0, seconds_per_token};
  return m;
}

latency_model latency_model::table(std::vector<latency_point> samples) {
  latency_model m;
  m.report_.kind = "table";
  for (latency_point& s : samples) s.requests = 0;
  m.points_ = merged(std::move(samples));
  return m;
}

latency_model latency_model::pwl3(std::vector<latency_point> samples, bool convex,
                                  bool per_request) {
  if (!per_request) {
    for (latency_point& s : samples) s.requests = 0;
  }
  const std::vector<latency_point> p = merged(std::move(samples));
  const std::vector<double> x = different_tokens(p);
  if (x.size() < 3 * points_per_piece) {
    latency_model m = table(p);
    m.report_.note = "only " + std::to_string(x.size()) + " different x: interpolating";
    return m;
  }
  fit_report fit;
  fit.kind = "pwl3";
  double least = 1e300;
  std::vector<row_of_terms> rows(p.size());
  const std::vector<double> ones(p.size(), 1.0);  // T(x) / T = 1: relative errors
  for (std::size_t i = points_per_piece; i + 2 * points_per_piece <= x.size(); ++i) {
    for (std::size_t j = i + points_per_piece; j + points_per_piece <= x.size(); ++j) {
      const double k1 = std::sqrt(x[i - 1] * x[i]);
      const double k2 = std::sqrt(x[j - 1] * x[j]);
      for (std::size_t r = 0; r < p.size(); ++r) {
        rows[r] = basis(p[r].tokens, k1, k2, convex, p[r].requests);
        for (double& term : rows[r]) term /= p[r].seconds;
      }
      row_of_terms a{};
      const double error = non_negative(rows, ones, a);
      if (error >= least) continue;
      least = error;
      fit.knot = {k1, k2};
      fit.intercept = a[0];
      fit.slope = {a[1], a[2], a[3]};
      fit.per_request = a[4];
      if (convex) fit.slope = {a[1], a[1] + a[2], a[1] + a[2] + a[3]};
    }
  }
  latency_model fitted;
  fitted.report_ = fit;
  for (const latency_point& s : p) {
    const double error = std::abs(fitted.seconds(s.tokens, s.requests) - s.seconds) / s.seconds;
    fitted.report_.mape += error / static_cast<double>(p.size());
    fitted.report_.max_error = std::max(fitted.report_.max_error, error);
  }
  if (fitted.report_.mape <= largest_mape) return fitted;
  std::vector<latency_point> rest = p;
  for (latency_point& s : rest) {
    s.seconds = std::max(s.seconds - fit.per_request * s.requests, 1e-3 * s.seconds);
  }
  latency_model m = table(std::move(rest));
  fitted.report_.kind = "table";
  fitted.report_.note = "three pieces miss by " + std::to_string(100 * fitted.report_.mape) +
                        " % on average: interpolating";
  m.report_ = fitted.report_;
  return m;
}

double latency_model::seconds(double x, double requests) const {
  if (report_.kind == "roofline") return std::max(report_.intercept, report_.slope[2] * x);
  const double own = report_.per_request * requests;
  if (report_.kind == "pwl3") {
    const row_of_terms b = basis(x, report_.knot[0], report_.knot[1], false, requests);
    return report_.intercept + report_.slope[0] * b[1] + report_.slope[1] * b[2] +
           report_.slope[2] * b[3] + own;
  }
  if (points_.size() == 1 || x <= points_.front().tokens) return points_.front().seconds + own;
  std::size_t i = 1;
  while (i + 1 < points_.size() && points_[i].tokens < x) ++i;
  const latency_point &a = points_[i - 1], &b = points_[i];
  return a.seconds + (b.seconds - a.seconds) * (x - a.tokens) / (b.tokens - a.tokens) + own;
}

std::vector<latency_point> parse_latency_samples(const std::string& owner,
                                                 const std::string& text) {
  std::vector<latency_point> samples;
  const char* p = text.data();
  const char* end = p + text.size();
  char closed_by = ',';
  const auto number = [&](const std::string& closing) {
    double value = 0;
    const auto [next, failure] = std::from_chars(p, end, value);
    closed_by = next == end ? ',' : *next;
    if (failure != std::errc{} || closing.find(closed_by) == std::string::npos) {
      throw usage_error(owner +
                        ": latency samples are 'tokens:seconds,...' or 'tokens/requests:seconds,"
                        "...', not '" +
                        text + "'");
    }
    p = next == end ? end : next + 1;
    return value;
  };
  while (p < end) {
    latency_point s;
    s.tokens = number("/:");
    if (closed_by == '/') s.requests = number(":");
    s.seconds = number(",");
    samples.push_back(s);
  }
  return samples;
}

std::string to_text(const std::vector<latency_point>& samples) {
  const auto shortest = [](double value) {
    char buffer[64];
    return std::string(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  };
  std::string text;
  for (const latency_point& s : samples) {
    text += (text.empty() ? "" : ",") + shortest(s.tokens) +
            (s.requests > 0 ? "/" + shortest(s.requests) : "") + ":" + shortest(s.seconds);
  }
  return text;
}

}  // namespace unmask
