// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::moe_route(const tensor_view&, const moe_router&, const tensor_view&,
                           const tensor_view&) const {
  no_kernel("moe_route");
}
void device_ops::moe_feed_forward(const tensor_view&, const tensor_view&, const tensor_view&,
                                  const moe_experts&, const tensor_view&) const {
  no_kernel("moe_feed_forward");
}

}  // namespace unmask::cuda::UNMASK_TARGET
