// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the environment says about the machine. Every variable starts with UNMASK_SOFTGPU_.
#pragma once

#include <cstdint>
#include <string>

namespace unmask::softgpu {

struct settings {
  int arch = 90;              // ARCH: 90 an H100, 80 an A100
  bool late = true;           // ASYNC=late|early: when cp.async and wgmma happen
  bool races = true;          // RACES=on|off: races in shared memory
  bool global_races = false;  // GLOBAL_RACES=on|off: races in global memory
  bool lazy = true;           // STREAMS=lazy|eager: lazy work runs when it is waited for
  bool pageable = false;      // PAGEABLE=on|off: kernels may read the host's memory
  bool open = false;          // OPEN=on|off: the host may touch device memory
  int order = 0;              // BLOCKS=forward|backward|random
  std::uint32_t seed = 1;     // SEED: order of warps, and of blocks where it is random
  int multiprocessors = 0;    // MULTIPROCESSORS: fewer, so that blocks take several items
  bool rough = false;         // NUMBERS=rough: approximations err as far as they may
  bool trace = false;         // TRACE=on|off: every launch is named on standard error
  bool statistics = false;    // STATS=on|off: counts on standard error at the end
  std::string coverage;       // COVERAGE: a folder for what was executed
};

// Read once.
const settings& options();

// Device memory of the card, as its data sheet says; bytes of shared memory that one block may take
// and that a multiprocessor has (CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability": 227 and 228 KiB for 9.0, 163 and 164 KiB for 8.0).
struct card {
  const char* name;
  int multiprocessors, clock_khz, memory_clock_khz, l2_bytes, shared_of_block, shared_of_processor;
};
const card& device();

}  // namespace unmask::softgpu
