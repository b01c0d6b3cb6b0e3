// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The roofs of this machine, measured in the same run as the benchmarks they bound.
#pragma once

#include "kernels/cpu/isa.h"

namespace unmask::bench {

struct roofs {
  double f32_flops = 0;    // per second, multiply-adds counted as 2, all threads, one ISA
  double int8_ops = 0;     // per second; equals f32_flops where there is no 8-bit dot product
  double triad_bytes = 0;  // per second, a = b + s c from main memory, 12 bytes an element
  int threads = 0;
  double own_share =
      1;  // of the threads' time while they were measured; less: others had the processors
};

// Best of several short runs, once per process and instruction set: a roof is what the machine can do,
// and on a shared machine only the best sample says so.
const roofs& measured_roofs(cpu::isa set = cpu::isa_of_environment());

// One pass of the triad, bytes per second; for bounds that must be interleaved with what they
// bound because the machine's memory speed moves.
double triad_once();

}  // namespace unmask::bench
