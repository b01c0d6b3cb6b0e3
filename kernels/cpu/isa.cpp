// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cpu/isa.h"

#include <algorithm>
#include <cstdlib>

#include "harness/base/error.h"

namespace unmask::cpu {

namespace {

bool has_avx2() {
#if defined(__x86_64__)
  // Every processor with AVX2 converts half precision too; older Clang has no name for that flag.
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool has_avx512() {
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

}  // namespace

const char* name_of(isa set) {
  switch (set) {
    case isa::avx512:
      return "avx512";
    case isa::avx2:
      return "avx2";
    case isa::portable:
      return "portable";
  }
  throw std::logic_error("name_of: unknown instruction set");
}

std::vector<isa> supported_isas() {
  std::vector<isa> all;
  if (has_avx512()) all.push_back(isa::avx512);
  if (has_avx2()) all.push_back(isa::avx2);
  all.push_back(isa::portable);
  return all;
}

isa require(isa set) {
  const auto all = supported_isas();
  if (std::find(all.begin(), all.end(), set) != all.end()) return set;
  throw environment_error(std::string("UNMASK_CPU_ISA: this processor does not support ") +
                          name_of(set) + "; unset it or choose " + name_of(all.front()));
}

isa parse_isa(const std::string& name) {
  for (isa set : {isa::avx512, isa::avx2, isa::portable}) {
    if (name == name_of(set)) return require(set);
  }
  throw usage_error("UNMASK_CPU_ISA: \"" + name + "\" is not one of avx512, avx2, portable");
}

isa isa_of_environment() {
  const char* wanted = std::getenv("UNMASK_CPU_ISA");
  if (wanted != nullptr && *wanted != '\0') return parse_isa(wanted);
  return supported_isas().front();
}

}  // namespace unmask::cpu
