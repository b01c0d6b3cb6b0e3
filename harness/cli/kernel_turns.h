// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// `unmask bench --kernels own,before,library`: the kernels' ways in turn, with ratios and their intervals.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "harness/cli/options.h"
#include "harness/devices/nvml.h"
#include "harness/rows/statistics.h"
#include "kernels/bench/turns.h"

namespace unmask {

option_table kernel_options();
// Runs it; exit code. Usage and environment errors as of any command.
int bench_kernels(const command_line& line);

// A way's time over another's, turn by turn: geometric mean, and its 95 % interval by Student's t of logarithms. Nothing: one was not timed,
// or there is but one turn.
struct turn_ratio {
  std::string against;
  double ratio = 0;
  interval range;
};
std::optional<turn_ratio> ratio_of(const bench::kernel_way& way, const bench::kernel_way& other);
// What an own way is held against, of those that were timed: a library's, else the kernels that newer ones
// would take the place of, else the first own one in front of it. A second way is held against the fastest own one.
const bench::kernel_way* held_against(const bench::kernel_case& c, std::size_t way);
// An own way's time over the kernels that it would take the place of, if it is held against a library. Otherwise nothing.
std::optional<turn_ratio> over_before(const bench::kernel_case& c, std::size_t way);

// Whether a second way is the best of its case, and the sentence that says so. It is if the whole interval of its ratio
// over the fastest own way is below 1. Nothing: it is no second way, or it or every own way was not timed.
struct second_way {
  bool taken = false;
  std::string sentence;
};
std::optional<second_way> second_way_of(const bench::kernel_case& c, std::size_t way);

// One JSON object a way, as results/FORMAT.md describes it. `load`: of the card while the turns were made.
std::string kernel_rows(const bench::kernel_case& c, const device_load& load = {});

}  // namespace unmask
