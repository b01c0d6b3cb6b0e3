// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The command lines of Nsight Systems and Nsight Compute that show what Unmask's ranges mark.
#pragma once

#include <string>
#include <vector>

namespace unmask {

struct tool_request {
  std::vector<std::string> program;  // the program and its arguments
  std::string report;                // path of the report, without extension
  std::vector<std::string> phases;   // Nsight Compute: kernels of these phases; empty: of all
  int launches = 20;                 // Nsight Compute: at most so many kernels
};

// One collection over the first `measure` range of the domain "unmask": CUDA and NVTX, every node
// of a graph, no CPU sampling. Ranges have registered names, so nsys needs no extra switch.
std::vector<std::string> nsys_command(const tool_request& request);
// What to run on the report afterwards: time on the device by range, by kernel.
std::vector<std::string> nsys_stats_command(const tool_request& request);

// Kernels launched inside `measure` (of the phases asked for), with the roofline sections. Clocks
// are left as they are: locking them is the tool's default, changes what is measured, and is not
// allowed on a shared machine. Kernel replay restores memory, so decisions stay the same.
// Usage error for a phase that does not exist or holds others.
std::vector<std::string> ncu_command(const tool_request& request);

}  // namespace unmask
