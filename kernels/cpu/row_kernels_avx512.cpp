// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// GCC 12 warns about its own intrinsics header (bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#define UNMASK_VEC_AVX512
#include "kernels/cpu/row_kernels.h"

namespace unmask::cpu {

const row_kernels& row_kernels_avx512() {
  static const row_kernels kernels = make_row_kernels<vec_avx512>();
  return kernels;
}

}  // namespace unmask::cpu
