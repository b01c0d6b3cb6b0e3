// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Which instruction set the CPU backend runs. One source per kernel is compiled three times; the
// choice is made once, at the first use, and may be overridden by UNMASK_CPU_ISA.
#pragma once

#include <string>
#include <vector>

namespace unmask::cpu {

enum class isa { avx512, avx2, portable };

const char* name_of(isa set);  // "avx512", "avx2", "portable"

// What this processor can run, best first; portable is always last.
//   avx512: F, BW, DQ, VL and VNNI (and FMA, F16C); avx2: AVX2, FMA and F16C.
std::vector<isa> supported_isas();

// The set in use: UNMASK_CPU_ISA when given, else the best this processor has. Throws
// usage_error for an unknown name and environment_error for a set the processor lacks.
isa active_isa();

// Changes the set for everything packed or called from now on (tests and benchmarks); throws
// environment_error when the processor lacks it. Not thread-safe against running operations.
// Weights stay tied to the set they were packed for.
void set_active_isa(isa set);

// Reads a name as UNMASK_CPU_ISA spells it and checks it against this processor.
isa parse_isa(const std::string& name);

}  // namespace unmask::cpu
