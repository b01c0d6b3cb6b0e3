// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The one vocabulary in which this program judges a number: an interval lies wholly within what is
// wanted, wholly outside, or is too wide to tell. Ablations, claims, comparisons of runs and the
// report use these words and no others.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "harness/analysis/statistics.h"

namespace unmask {

enum class verdict : std::uint8_t {
  // A setting against its base, or a run against its repetition.
  same,
  faster,
  slower,
  better,
  worse,
  repeated,
  differs,
  // A claim of a paper.
  reproduced,
  reproduced_model,  // rests on synthetic weights or on a virtual clock
  partly,
  not_reproduced,
  not_applicable,  // its precondition does not hold here
  not_run,
  // Both: the sample is too small to tell.
  ambiguous
};
const char* name_of(verdict v);  // "REPRODUCED (model)", "SAME", ...
// How a page should show it: "good", "mid" or "bad". Row verdicts by their names are known too.
const char* tone_of(const std::string& name);

enum class finding : std::uint8_t { held, undecided, failed };

// What an interval must lie in. An open end excludes the bound itself.
struct region {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open = false;
  bool holds(double x) const { return open ? x > low && x < high : x >= low && x <= high; }
};

// Held when the whole interval lies in the region, failed when no part of it does.
finding judge(const interval& i, const region& wanted);

// How many times the evidence behind an interval would decide it, were its value to stay: widths
// shrink with the square root of n. 1 where it is decided, infinity where the value lies on a bound.
double evidence_to_decide(double value, const interval& i, const region& wanted);

// The verdict of a value against a margin around `neutral`: `inside`, `above`, `below`, or AMBIGUOUS
// where its interval is missing, not finite or crosses an end of the margin.
verdict against_margin(const std::optional<interval>& range, const region& margin, verdict below,
                       verdict above);

}  // namespace unmask
