// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Two runs of the same experiments, point by point: a repetition elsewhere, an A/A test, a change
// of the program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/analysis/frame.h"

namespace unmask {

struct run_difference {
  std::string point;  // what was run, for people to read
  std::string what;   // metric or property
  std::string before, after;
};

struct run_comparison {
  std::size_t points = 0;  // in both
  std::size_t same_tokens = 0;
  std::size_t calibrated = 0;                // points whose tokens depend on times, by design
  std::size_t ratios = 0;                    // speed ratios with an interval in both
  std::vector<run_difference> differences;   // of what must be equal
  std::vector<run_difference> speeds_apart;  // ratios whose intervals do not overlap
  // Of those, ratios whose intervals would not overlap if they were four times as wide: chance
  // gives 0.025 % of such from 2 repetitions, 0.002 % from 3.
  std::size_t far_apart = 0;
  std::vector<std::string> notes;  // what may explain them: other kernels, another commit
  bool speeds_compared = true;
  // More speed ratios are apart than chance explains, or one of them far.
  bool speeds_differ() const;
  bool same() const { return differences.empty() && !speeds_differ(); }
};

// How likely `apart` or more of `ratios` pairs of intervals do not overlap where nothing changed:
// the upper tail of the binomial distribution with 0.56 % each, which is what two 95 % Student
// intervals of the same mean do at most (0.40 % from 2 repetitions, 0.48 % from 3, 0.56 % from
// many).
double chance_of_apart(std::size_t ratios, std::size_t apart);

// Speeds are left out where two runs had other machines or other neighbours, which intervals over
// the repetitions of one run do not see.
enum class compared_speeds : std::uint8_t { ratios, none };

// Point by point: weights, workload, answers, every counted metric, score and verdict must be
// equal; of speeds the ratios to the first method in the same circumstances, whose intervals must
// overlap, all but as many as chance explains (5 %) and none far apart. Points that calibrate
// themselves on measured times are held to their score only: the interval of its difference must
// hold 0.
run_comparison compare_runs(const std::vector<result_row>& before,
                            const std::vector<result_row>& after,
                            compared_speeds speeds = compared_speeds::ratios);
// The same of two rows files, directories of rows, or campaigns: directories with a rows.jsonl at
// the same places below both. Usage error when there is none in common.
run_comparison compare_paths(const std::filesystem::path& before,
                             const std::filesystem::path& after,
                             compared_speeds speeds = compared_speeds::ratios);
std::string comparison_text(const run_comparison& comparison);

}  // namespace unmask
