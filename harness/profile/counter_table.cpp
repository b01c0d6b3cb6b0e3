// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The part of cupti_counters.h that needs no CUPTI: the metric sets and the sums over ranges.
#include <cmath>

#include "harness/base/error.h"
#include "harness/profile/cupti_counters.h"

namespace unmask {
namespace {

constexpr const char* duration = "gpu__time_duration.sum";
constexpr const char* dram_read = "dram__bytes_read.sum";
constexpr const char* dram_write = "dram__bytes_write.sum";
constexpr const char* tensor = "sm__ops_path_tensor_src_bf16_dst_fp32.sum";
constexpr const char* sm_clock = "sm__cycles_elapsed.avg.per_second";
constexpr const char* dram_clock = "dram__cycles_elapsed.avg.per_second";
constexpr const char* dram_peak = "dram__bytes.sum.peak_sustained";
constexpr const char* tensor_peak = "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained";
constexpr const char* fadd = "sm__sass_thread_inst_executed_op_fadd_pred_on.sum";
constexpr const char* fmul = "sm__sass_thread_inst_executed_op_fmul_pred_on.sum";
constexpr const char* ffma = "sm__sass_thread_inst_executed_op_ffma_pred_on.sum";

}  // namespace

const std::vector<std::string>& roofline_metrics() {
  static const std::vector<std::string> all = {duration, dram_read,  dram_write, tensor,
                                               sm_clock, dram_clock, dram_peak,  tensor_peak};
  return all;
}

const std::vector<std::string>& scalar_metrics() {
  static const std::vector<std::string> all = {fadd, fmul, ffma};
  return all;
}

counter_table sum_ranges(const std::string& chip, const std::vector<counted_range>& ranges,
                         std::int64_t dropped, std::int64_t left_out) {
  counter_table table;
  table.chip = chip;
  table.dropped = dropped;
  table.left_out = left_out;
  std::vector<counted_phase> sums(profile_phases);
  double bytes_peaks = 0, tensor_peaks = 0;
  std::int64_t with_peak = 0;
  for (const counted_range& r : ranges) {
    profile_phase phase{};
    try {
      phase = phase_named(r.range.substr(0, r.range.find('#')).c_str());
    } catch (const error&) {
      table.problem = "a range is named '" + r.range + "', which is no phase";
      continue;
    }
    const auto value = [&](const char* metric) {
      const auto found = r.values.find(metric);
      if (found == r.values.end()) return 0.0;  // another set
      if (!std::isfinite(found->second)) {
        table.problem = std::string(metric) + " of " + r.range + " is not finite";
        return 0.0;
      }
      return found->second;
    };
    counted_phase& sum = sums[static_cast<std::size_t>(phase)];
    sum.phase = phase;
    ++sum.ranges;
    ++table.ranges;
    sum.seconds += value(duration) * 1e-9;
    sum.bytes += value(dram_read) + value(dram_write);
    sum.tensor_ops += value(tensor);
    sum.scalar_ops += value(fadd) + value(fmul) + 2 * value(ffma);
    // A range in which nothing ran has no clock.
    if (value(dram_clock) > 0 && value(sm_clock) > 0) {
      bytes_peaks += value(dram_peak) * value(dram_clock);
      tensor_peaks += value(tensor_peak) * value(sm_clock);
      ++with_peak;
    }
  }
  for (counted_phase& sum : sums) {
    if (sum.ranges > 0) table.phases.push_back(sum);
  }
  if (with_peak > 0) {
    table.peak_bytes_per_second = bytes_peaks / static_cast<double>(with_peak);
    table.peak_tensor_ops_per_second = tensor_peaks / static_cast<double>(with_peak);
  }
  if (table.problem.empty() && dropped > 0) {
    table.problem = std::to_string(dropped) + " ranges were dropped";
  }
  if (table.problem.empty() && ranges.empty()) table.problem = "no range was counted";
  return table;
}

}  // namespace unmask
