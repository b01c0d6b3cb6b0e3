// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_AVX2
#include "kernels/cpu/head_kernels.h"

namespace unmask::cpu {

const head_kernels& head_kernels_avx2() {
  static const head_kernels kernels = make_head_kernels<vec_avx2>();
  return kernels;
}

}  // namespace unmask::cpu
