// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_PORTABLE
#include "kernels/cpu/head_kernels.h"

namespace unmask::cpu {

const head_kernels& head_kernels_portable() {
  static const head_kernels kernels = make_head_kernels<vec_portable>();
  return kernels;
}

}  // namespace unmask::cpu
