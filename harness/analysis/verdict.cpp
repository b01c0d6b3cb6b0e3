// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/analysis/verdict.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace unmask {

const char* name_of(verdict v) {
  constexpr const char* names[] = {"SAME",    "FASTER",         "SLOWER",
                                   "BETTER",  "WORSE",          "REPEATED",
                                   "DIFFERS", "REPRODUCED",     "REPRODUCED (model)",
                                   "PARTLY",  "NOT REPRODUCED", "NOT APPLICABLE",
                                   "NOT RUN", "AMBIGUOUS"};
  return names[static_cast<std::size_t>(v)];
}

const char* tone_of(const std::string& name) {
  static const std::set<std::string> good = {
      "PASS", "REPRODUCED", "REPRODUCED (model)", "SAME", "FASTER", "BETTER", "REPEATED"};
  static const std::set<std::string> bad = {"INVALID", "FAILED", "NOT REPRODUCED",
                                            "DIFFERS", "SLOWER", "WORSE"};
  return good.contains(name) ? "good" : bad.contains(name) ? "bad" : "mid";
}

finding judge(const interval& i, const region& wanted) {
  // Rounding must not decide a bound that is met exactly.
  const double slack =
      wanted.open ? 0
                  : 1e-12 * std::max(std::isfinite(wanted.low) ? std::abs(wanted.low) : 0.0,
                                     std::isfinite(wanted.high) ? std::abs(wanted.high) : 0.0);
  const region r{wanted.low - slack, wanted.high + slack, wanted.open};
  if (r.holds(i.low) && r.holds(i.high)) return finding::held;
  const bool apart = r.open ? i.high <= r.low || i.low >= r.high : i.high < r.low || i.low > r.high;
  return apart ? finding::failed : finding::undecided;
}

double evidence_to_decide(double value, const interval& i, const region& wanted) {
  if (judge(i, wanted) != finding::undecided) return 1;
  double factor = 1;
  for (const double bound : {wanted.low, wanted.high}) {
    if (!(bound >= i.low && bound <= i.high)) continue;
    const double arm = bound < value ? value - i.low : i.high - value;
    factor = std::max(factor, std::pow(arm / (value - bound), 2));
  }
  return factor;
}

verdict against_margin(const std::optional<interval>& range, const region& margin, verdict below,
                       verdict above) {
  if (!range || !std::isfinite(range->low) || !std::isfinite(range->high)) {
    return verdict::ambiguous;
  }
  if (range->low >= margin.low && range->high <= margin.high) return verdict::same;
  if (range->low > margin.high) return above;
  if (range->high < margin.low) return below;
  return verdict::ambiguous;
}

}  // namespace unmask
