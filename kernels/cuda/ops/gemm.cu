// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::linear(const tensor_view&, const packed_matrix&, const tensor_view&,
                        const tensor_view&, bool) const {
  no_kernel("linear");
}

}  // namespace unmask::cuda::UNMASK_TARGET
