// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// GCC 12 warns about the undefined registers that its own intrinsics pass on purpose.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define UNMASK_VEC_AVX512
#include "kernels/cpu/gemm_kernel.h"

namespace unmask::cpu {

const gemm_kernels& gemm_kernels_avx512() {
  static const gemm_kernels kernels = make_gemm_kernels<vec_avx512, 8, 3>();
  return kernels;
}

}  // namespace unmask::cpu
