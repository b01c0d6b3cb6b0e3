// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Instruction sets of the CPU backend. One source per kernel (compiled/) is compiled three times; each
// backend object runs one of them (backend.h).
#pragma once

#include <string>
#include <vector>

namespace unmask::cpu {

enum class isa { avx512, avx2, portable };

const char* name_of(isa set);  // "avx512", "avx2", "portable"

// What this processor can run, best first; portable is always last.
//   avx512: F, BW, DQ, VL and VNNI (and FMA, F16C); avx2: AVX2, FMA and F16C.
std::vector<isa> supported_isas();

// Reads a name as UNMASK_CPU_ISA spells it and checks it against this processor. Throws usage_error
// for an unknown name and environment_error for a set the processor lacks.
isa parse_isa(const std::string& name);
isa require(isa set);  // as it is; the second check alone

// UNMASK_CPU_ISA when given, else the best this processor has; for tests and benchmarks of single
// kernels.
isa isa_of_environment();

// The vector types of vec.h, which only the sources of their set see whole.
struct vec_avx512;
struct vec_avx2;
struct vec_portable;

// of.operator()<V>() with the vector type V of the set.
template <class Of>
decltype(auto) with_vector(isa set, Of of) {
#if defined(__x86_64__)
  if (set == isa::avx512) return of.template operator()<vec_avx512>();
  if (set == isa::avx2) return of.template operator()<vec_avx2>();
#endif
  (void)set;
  return of.template operator()<vec_portable>();
}

}  // namespace unmask::cpu
