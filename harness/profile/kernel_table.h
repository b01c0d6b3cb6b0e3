// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From activity records to "which phase spent its time in which kernel". Launches are asynchronous,
// so time on the device says nothing about the phase; what connects them is a correlation id: the
// launch of a kernel was made under an external id, and an external id is one instance of a phase.
// A kernel of a CUDA graph has the correlation id of the whole graph's launch; its node was created
// under an external id when the graph was captured.
//
// Plain data and a pure function: no CUPTI header, tested without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/profile/phase_clock.h"

namespace unmask {

// A kernel, copy or fill on the device. Nanoseconds; begin = end = 0: the tool recorded no time.
struct kernel_activity {
  std::string name;  // demangled; "[memcpy HtoD]", "[memset]"
  std::int64_t begin = 0, end = 0;
  std::uint32_t correlation = 0;
  std::uint32_t device = 0, stream = 0;
  std::uint64_t graph_node = 0;  // 0: launched directly
};

struct external_activity {
  std::uint32_t correlation = 0;
  std::uint64_t external = 0;
};

// One instance of a phase, as it was entered.
struct phase_instance {
  std::uint64_t external = 0;  // its id, from 1
  profile_phase phase = profile_phase::step;
  std::int64_t payload = 0;
};

// A graph node and the phase instance under which it was captured.
struct graph_node_origin {
  std::uint64_t node = 0;
  std::uint64_t external = 0;
};

struct activity_records {
  std::vector<kernel_activity> kernels;
  std::vector<external_activity> externals;
  std::vector<phase_instance> instances;
  std::vector<graph_node_origin> nodes;
  std::uint64_t dropped = 0;  // records that the tool lost
};

struct kernel_row {
  bool attributed = false;
  profile_phase phase = profile_phase::step;  // when attributed
  std::string kernel;
  std::int64_t launches = 0;
  double seconds = 0, shortest = 0, longest = 0;
};

struct kernel_table {
  std::vector<kernel_row> rows;  // attributed first, by phase, the longest kernel first
  double seconds = 0;            // sum over kernels: streams overlap, so it may exceed `busy`
  double unattributed_seconds = 0;
  double busy = 0;  // seconds in which at least one kernel ran
  double span = 0;  // from the first begin to the last end
  std::int64_t launches = 0;
  std::int64_t without_time = 0;  // launches with no or an impossible time; in no sum of seconds
  std::uint64_t dropped = 0;
  // Why the table is not valid; empty: it is.
  std::string problem;
};

// Records may come in any order. Of several external ids of one correlation the largest counts: ids
// rise, so that is the innermost phase.
kernel_table correlate(const activity_records& records);

// The timed records as slices of a trace, shifted by `offset` nanoseconds.
std::vector<device_slice> slices_of(const activity_records& records, std::int64_t offset);

}  // namespace unmask
