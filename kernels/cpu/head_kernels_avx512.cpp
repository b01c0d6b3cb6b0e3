// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// GCC 12 warns about its own intrinsics header (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define UNMASK_VEC_AVX512
#include "kernels/cpu/head_kernels.h"

namespace unmask::cpu {

const head_kernels& head_kernels_avx512() {
  static const head_kernels kernels = make_head_kernels<vec_avx512>();
  return kernels;
}

}  // namespace unmask::cpu
