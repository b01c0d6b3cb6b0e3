// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Profiling as an experiment: the same points, the same runner, and after the timed passes of each
// point one more pass that a tool watches. What it saw becomes the row's probe "phases"
// (results/FORMAT.md), so that tables and figures come from rows like everything else. Timed passes
// stay free of any instrumentation of ours.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/devices/device.h"
#include "harness/measure/point.h"
#include "harness/profile/kernel_table.h"
#include "harness/profile/phase_clock.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask {

enum class profile_tool : std::uint8_t {
  phases,  // the phase clock
  nvtx,    // nothing of our own: every timed pass is a `measure` range, for a profiler around us
  cupti    // kernels by phase, then counters by phase, each in a pass of its own
};

struct profile_settings {
  profile_tool tool = profile_tool::phases;
  std::filesystem::path trace;  // Chrome trace of the traced pass; empty: none
  std::size_t most_events = 1'000'000;
  std::size_t most_ranges = 20'000;  // that counters are read for
  bool counters = true;              // cupti: also a pass for each set of counters
  // Asked once per device, instruction set and format, outside every timed pass.
  std::function<device_roofs(const run_keys& run, const std::string& format)> roofs;
};

// Where the trace of a point goes: FILE, then FILE stem-2, -3, ... for the points that follow.
std::filesystem::path trace_of_point(const std::filesystem::path& file, std::size_t index);

// For run_options::watch.
point_watcher make_profiler(profile_settings settings);

// What one point's traced pass left behind; the probe is made from it.
struct phase_report {
  std::vector<phase_total> phases;         // of the CPU's clock
  std::vector<phase_seconds> other_ranks;  // by the same clock, of ranks 1, 2, ...
  double seconds = 0;                      // of the traced pass
  double untraced_seconds = 0;             // mean of the timed passes
  std::int64_t events_left_out = 0;
  device_roofs roofs;            // the larger of before and after the pass that was watched
  bool roofs_uncertain = false;  // the two differ by more than a tenth
  bool roofs_disturbed = false;  // other work had the processors both times
  std::string kernels_problem, counters_problem;
  std::vector<kernel_row> kernels;  // cupti
  double device_busy = 0, device_span = 0, device_unattributed = 0;
  std::string chip;
  // What the emulator counted of the kernels' traffic; only its backend has any.
  std::optional<cuda::emulator::device_traffic> traffic;
  // By phase: what counters said; empty: not counted, and FLOPs and bytes are analytic.
  struct counted {
    profile_phase phase;
    double flops = 0, bytes = 0;
  };
  std::vector<counted> counters;
};

// JSON object: "seconds", "untraced_seconds", "roofs", "provenance", and "phases", a list with one
// object per phase: phase, calls, seconds, own_seconds, least_seconds and most_seconds (own_seconds over the
// ranks; null: one rank, or traced kernels), rows, flops, bytes (null: not known), roof_share (null: no roof
// or no work) and provenance ("analytic" or "cupti"). With the emulator
// "traffic": steps, launches, waits, copies and "kernels", counted (kernels/cuda/device/traffic.h).
std::string phases_json(const phase_report& report);

}  // namespace unmask
