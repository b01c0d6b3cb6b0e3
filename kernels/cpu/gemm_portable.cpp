// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_PORTABLE
#include "kernels/cpu/gemm_kernel.h"

namespace unmask::cpu {

const gemm_kernels& gemm_kernels_portable() {
  static const gemm_kernels kernels = make_gemm_kernels<vec_portable, 2, 4>();
  return kernels;
}

}  // namespace unmask::cpu
