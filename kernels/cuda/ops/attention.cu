// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::attention(const row_set&, const tensor_view&, const paged_kv&, const key_set&,
                           float, const tensor_view&, const tensor_view&) const {
  no_kernel("attention");
}

}  // namespace unmask::cuda::UNMASK_TARGET
