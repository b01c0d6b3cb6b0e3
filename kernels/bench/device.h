// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

namespace unmask::bench {

// Registers the cases of the CUDA backend, cuda_*, where there is a GPU; elsewhere says in one line
// on standard error that they are NOT RUN and why. UNMASK_BENCH_EMULATED=1 registers emulated_*
// instead: the same code on the emulator at small sizes, to test it; their times mean nothing.
void register_device_cases();

}  // namespace unmask::bench
