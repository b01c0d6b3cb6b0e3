// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_AVX2
#include "kernels/cpu/row_kernels.h"

namespace unmask::cpu {

const row_kernels& row_kernels_avx2() {
  static const row_kernels kernels = make_row_kernels<vec_avx2>();
  return kernels;
}

}  // namespace unmask::cpu
