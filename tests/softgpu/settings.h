// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the environment says about the machine. Every variable starts with UNMASK_SOFTGPU_.
#pragma once

#include <cstdint>
#include <string>

namespace unmask::softgpu {

struct settings {
  int arch = 90;              // ARCH: 90 an H100, 80 an A100, 89, 100, 120: see card
  bool late = true;           // ASYNC=late|early: when cp.async and wgmma happen
  bool races = true;          // RACES=on|off: races in shared memory
  bool global_races = false;  // GLOBAL_RACES=on|off: races in global memory
  bool lazy = true;           // STREAMS=lazy|eager: lazy work runs when it is waited for
  bool pageable = false;      // PAGEABLE=on|off: kernels may read the host's memory
  bool open = false;          // OPEN=on|off: the host may touch device memory
  int order = 0;              // BLOCKS=forward|backward|random
  std::uint32_t seed = 1;     // SEED: order of warps, and of blocks where it is random
  int multiprocessors = 0;    // MULTIPROCESSORS: fewer, so that blocks take several items
  int devices = 1;            // DEVICES: cards of the machine, all alike
  int unlike = -1;            // UNLIKE: the card of this number has one multiprocessor less
  int new_driver = -1;        // NEW_DRIVER: the process of the card of this number has driver 13.1
  bool rough = false;         // NUMBERS=rough: approximations err as far as they may
  bool trace = false;         // TRACE=on|off: every launch is named on standard error
  bool statistics = false;    // STATS=on|off: counts on standard error at the end
  std::string coverage;       // COVERAGE: a folder for what was executed
};

// Read once.
const settings& options();

// A card: what the runtime tells of it, and what a launch may take.
//
// Shared memory of a block and of a multiprocessor and threads of a multiprocessor: CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability". Multiprocessors, memory,
// its bus and clock, L2: NVIDIA's data sheets and architecture papers of A100 SXM 80 GB, RTX 4090,
// H100 SXM, RTX 5090; of B200 what its driver reports (github.com/pytorch/ao, pull request 4002).
struct card {
  int arch;
  const char* name;
  int multiprocessors, clock_khz, memory_clock_khz, bus_bits;
  int l2_bytes, shared_of_block, shared_of_processor, threads_of_processor;
  int memory_gib;
  bool ecc;
  // The PTX that it runs: sm_90a's on 9.0 alone, compute_80's on all others.
  int images() const { return arch == 90 ? 90 : 80; }
};
const card& device();

}  // namespace unmask::softgpu
