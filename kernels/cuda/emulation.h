// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How the backend "cuda-emulated" behaves, for tests.
#pragma once

#include <cstdint>

#include "kernels/cuda/device/emulator.h"

namespace unmask::cuda {

struct emulation {
  emulator::schedule order;
  // Launches wait in the queue until backend::synchronize(), as on a GPU: host code that reads a result
  // too early reads what was there before.
  bool deferred = false;
  // A launch whose arguments point to memory that the backend did not allocate is refused: the GPU
  // could not read it.
  bool own_memory_only = false;
  // Device memory that is allocated now is closed to the host: touching it ends the program.
  bool hides_memory = false;
};
void set_emulation(const emulation& choice);
const emulation& current_emulation();

std::uint64_t emulated_launches();  // so far

// Whether this build looks at arguments for own_memory_only. Padding between them must be cleared
// first, or left-over bytes look like pointers, and Clang 14 (thread sanitizer, fuzzers) cannot.
#if !defined(__CUDACC__)
#if __has_builtin(__builtin_clear_padding)
inline constexpr bool checks_arguments = true;
#else
inline constexpr bool checks_arguments = false;
#endif
#endif

}  // namespace unmask::cuda
