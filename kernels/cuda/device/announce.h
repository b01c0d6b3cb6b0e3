// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How blocks of one launch tell each other how far they are, for kernels of both builds (portable.h).
//
//   announce(count)            adds 1, and returns what was there. Who meets the new count sees what this
//                              thread wrote, and what others of its block wrote before the last
//                              sync_block().
//   await_count(count, wanted) waits until it was announced that often. Those who do have to be running
//                              blocks, or to have run.
#pragma once

#include "kernels/cuda/device/portable.h"

namespace unmask::cuda::UNMASK_TARGET {

#if defined(__CUDACC__)
UNMASK_DEVICE std::int32_t announce(std::int32_t* count) {
  std::int32_t before;
  asm volatile("fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.s32 %0, [%1], 1;\n"
               : "=r"(before)
               : "l"(count)
               : "memory");
  return before;
}
UNMASK_DEVICE void await_count(const std::int32_t* count, std::int32_t wanted) {
  std::int32_t now;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];\n" : "=r"(now) : "l"(count) : "memory");
  } while (now < wanted);
}
#else
// A block runs to its end before the next one begins.
UNMASK_DEVICE std::int32_t announce(std::int32_t* count) {
  return atomic_add(count, 1);
}
UNMASK_DEVICE void await_count(const std::int32_t* count, std::int32_t wanted) {
  if (*count < wanted) emulator::fail("waits for ever for what no block has announced");
}
#endif

}  // namespace unmask::cuda::UNMASK_TARGET
