// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Hardware counters per phase, by CUPTI's range profiler. A decoding step changes tokens and cache,
// so nothing may be replayed: every set of metrics here needs exactly one pass over the run, and a
// set that needs more on some chip is refused. Counting slows the device down; times of a counted
// run are not shown as speed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/profile/phases.h"

namespace unmask {

// Time, bytes to and from device memory, bf16 tensor operations, and the hardware's own roofs.
const std::vector<std::string>& roofline_metrics();
// FP32 additions, multiplications and multiply-adds of the CUDA cores (the exact mode, softmax,
// norms). Counted by patched instructions, hence in a run of their own.
const std::vector<std::string>& scalar_metrics();

struct metric_plan {
  std::string chip;
  std::vector<std::string> metrics;
  std::vector<std::uint8_t> image;  // what the device is configured with
  std::size_t passes = 0;
};

// Chips this CUPTI knows. Needs no GPU. Environment error without CUPTI.
std::vector<std::string> counter_chips();
// Environment error for a chip or a metric that CUPTI does not know. Needs no GPU: the host side
// of the profiler computes it. `availability`: image of the device at hand; empty: all counters.
metric_plan plan_metrics(const std::string& chip, const std::vector<std::string>& metrics,
                         const std::vector<std::uint8_t>& availability = {});

// What one phase instance counted, by metric.
struct counted_range {
  std::string range;  // the phase's name, then "#" and a number
  std::map<std::string, double> values;
};

struct counted_phase {
  profile_phase phase = profile_phase::attention;
  std::int64_t ranges = 0;
  double seconds = 0;  // gpu__time_duration: of the counted run
  double bytes = 0;    // dram__bytes_read + dram__bytes_write
  double tensor_ops = 0;
  double scalar_ops = 0;  // fadd + fmul + 2 ffma
};

struct counter_table {
  std::string chip;
  std::vector<counted_phase> phases;  // in the order of the enumeration
  double peak_bytes_per_second = 0;   // dram peak per cycle x its clock, mean of the ranges; 0: no
  double peak_tensor_ops_per_second = 0;
  std::int64_t ranges = 0;
  std::int64_t dropped = 0;   // the device had no room for them
  std::int64_t left_out = 0;  // phases beyond the number asked for
  std::string problem;        // why the table is not valid; empty: it is
};

// Sums ranges by phase; a range whose name is no phase, or a metric that is missing or not finite,
// becomes the table's problem. Pure.
counter_table sum_ranges(const std::string& chip, const std::vector<counted_range>& ranges,
                         std::int64_t dropped, std::int64_t left_out);

// Counts the leaf phases of the thread that it listens to.
class range_counters : public phase_listener {
 public:
  virtual counter_table finish() = 0;  // stops, decodes, sums
};

// Starts counting the first `most_ranges` of them. Needs a CUDA context on the calling thread.
// Environment error, in words, when counters are refused, the device has none, the chip is unknown
// or the set needs more than one pass.
std::unique_ptr<range_counters> count_ranges(const std::vector<std::string>& metrics,
                                             std::size_t most_ranges);

}  // namespace unmask
