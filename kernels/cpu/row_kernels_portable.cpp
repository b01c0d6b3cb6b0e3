// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#define UNMASK_VEC_PORTABLE
#include "kernels/cpu/row_kernels.h"

namespace unmask::cpu {

const row_kernels& row_kernels_portable() {
  static const row_kernels kernels = make_row_kernels<vec_portable>();
  return kernels;
}

}  // namespace unmask::cpu
