// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_AVX512
#include "kernels/cpu/gemm_kernel.h"

namespace unmask::cpu {

const gemm_kernels& gemm_kernels_avx512() {
  static const gemm_kernels kernels = make_gemm_kernels<vec_avx512, 8, 3>();
  return kernels;
}

}  // namespace unmask::cpu
