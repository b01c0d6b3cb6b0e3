// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_PORTABLE
#include "kernels/cpu/attention_kernel.h"

namespace unmask::cpu {

const attention_kernels& attention_kernels_portable() {
  static const attention_kernels kernels = make_attention_kernels<vec_portable, 4>();
  return kernels;
}

}  // namespace unmask::cpu
