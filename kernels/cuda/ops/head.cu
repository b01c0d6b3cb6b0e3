// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::confidence(const tensor_view&, const packed_matrix&, const candidate_set&,
                            const confidence_params&, const confidence_out&) const {
  no_kernel("confidence");
}
void device_ops::logits(const tensor_view&, const packed_matrix&, const std::int32_t*,
                        const tensor_view&) const {
  no_kernel("logits");
}
void device_ops::sample(const candidate_set&, const tensor_view&, const sample_params&,
                        const confidence_out&) const {
  no_kernel("sample");
}

}  // namespace unmask::cuda::UNMASK_TARGET
