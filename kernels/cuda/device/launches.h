// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Launches that start before those before them have ended (grid_shape::early), for kernels of both builds
// (portable.h). Only machine code for sm_90a has them; on the emulator launches run one after the other.
//
//   let_next_start()       the next launch may start, if it is one that starts early, as soon as every block
//                          has said so or has ended
//   wait_for_launches()    waits until the launches before have ended; what they wrote is seen behind it. Who
//                          starts early touches nothing before it that a launch writes, and writes nothing.
#pragma once

#include "kernels/cuda/device/portable.h"

namespace unmask::cuda::UNMASK_TARGET {

UNMASK_DEVICE void let_next_start() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}
UNMASK_DEVICE void wait_for_launches() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

}  // namespace unmask::cuda::UNMASK_TARGET
