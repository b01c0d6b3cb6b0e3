// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_AVX2
#include "kernels/cpu/attention_kernel.h"

namespace unmask::cpu {

const attention_kernels& attention_kernels_avx2() {
  static const attention_kernels kernels = make_attention_kernels<vec_avx2, 4>();
  return kernels;
}

}  // namespace unmask::cpu
