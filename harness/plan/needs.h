// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What an experiment needs from the machine, and what of it is missing: checked before anything is
// loaded, so that nobody waits for a run that cannot end.
//
//   cuda              kernels in this program and a GPU     gpus:N          that many
//   weights:NAME      a model directory (locate.h)          gpu_memory_gb:N of one GPU
//   benchmark:NAME    every file of it, or its prompts written beforehand; NAME/HARNESS[/CONFIG]
//   memory_gb:N       of the machine
//   trace:FILE        a request trace                       cores:N         usable by this process
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "harness/plan/spec.h"

namespace unmask {

// Usage error beginning with `where` for a need that is none of the above.
void check_need(const std::string& need, const std::string& where);

// The needs that the file states, and those that follow from its models, workloads and devices
// (overrides included). In the order of the file, none twice.
std::vector<std::string> needs_of(const experiment_spec& spec);

struct machine_view {
  bool cuda_kernels = false;
  std::size_t gpus = 0;
  std::string no_gpu;        // why none of them can be used; empty: one can
  double gpu_memory_gb = 0;  // of the largest GPU, 2^30 bytes
  double memory_gb = 0;
  int cores = 1;
  // has_dataset: all files of a benchmark, as a need names it.
  std::function<bool(const std::string&)> has_weights, has_dataset, has_trace;
};
machine_view this_machine();

// Each missing need with what was found instead: "memory_gb:64 (23.5 here)". Empty: all is there.
std::vector<std::string> missing_needs(const std::vector<std::string>& needs,
                                       const machine_view& machine);

// Why the experiment cannot run on this machine: "NOT RUN: needs a; b", or the reason that the
// file itself gives. Empty: it can.
std::string cannot_run(const experiment_spec& spec, const machine_view& machine);

}  // namespace unmask
