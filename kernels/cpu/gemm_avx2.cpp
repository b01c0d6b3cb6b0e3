// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_AVX2
#include "kernels/cpu/gemm_kernel.h"

namespace unmask::cpu {

const gemm_kernels& gemm_kernels_avx2() {
  static const gemm_kernels kernels = make_gemm_kernels<vec_avx2, 4, 3>();
  return kernels;
}

}  // namespace unmask::cpu
