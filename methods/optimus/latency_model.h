// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// T(x): seconds of one decoding step as a function of x, the tokens in the forward (Optimus,
// elastic scheduling). Three sources: a continuous function of three affine pieces fitted to
// samples, the samples themselves, or two constants. Not in the paper: a term g b for the b
// requests of the forward, because every request reads its own context whatever its chunk.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace unmask {

struct latency_point {
  double tokens = 0;    // rows of the forward, all sequences
  double seconds = 0;   // of one step as the scheduler sees it
  double requests = 0;  // sequences of the forward; 0: not known
};

class latency_model {
 public:
  // max(floor, per_token x): a roofline.
  static latency_model roofline(double floor_seconds, double seconds_per_token);
  // Linear between the medians of equal x; constant before the first, last slope after the last.
  // Throws a usage error without samples or for a sample that is not positive.
  static latency_model table(std::vector<latency_point> samples);
  // T(x) = a0 + s1 min(x, k1) + s2 clamp(x - k1, 0, k2 - k1) + s3 max(0, x - k2), the pair of knots
  // (geometric midpoints of neighbouring x, at least three points per piece) and slopes >= 0 with
  // the least sum of squared relative errors. `convex`: slopes may only grow (dense models; the
  // experts that a larger batch loads make a mixture's curve concave at first). Falls back to the
  // table, and says so, with fewer than nine different x or when the mean relative error exceeds
  // 5 %. `per_request` fits g >= 0 as well, from samples of equal x by different numbers of
  // requests; T(x, b) = T(x) + g b, and a table then holds what is left of the samples without g b.
  static latency_model pwl3(std::vector<latency_point> samples, bool convex,
                            bool per_request = false);

  double seconds(double tokens, double requests = 0) const;

  struct fit_report {
    std::string kind;  // "pwl3", "table", "roofline"
    std::string note;  // why not what was asked for; empty otherwise
    double intercept = 0;
    std::array<double, 2> knot{};
    std::array<double, 3> slope{};
    double per_request = 0;          // g
    double mape = 0, max_error = 0;  // mean and largest relative error of the fit at the samples
  };
  const fit_report& report() const { return report_; }

 private:
  fit_report report_;
  std::vector<latency_point> points_;  // ascending; table only
};

// "x:seconds,..." or, with the number of requests, "x/b:seconds,..."; throws a usage error that
// names `owner`.
std::vector<latency_point> parse_latency_samples(const std::string& owner, const std::string& text);
std::string to_text(const std::vector<latency_point>& samples);

}  // namespace unmask
