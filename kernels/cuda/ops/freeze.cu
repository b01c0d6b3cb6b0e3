// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::push_history(const candidate_set&, const float*, bool, const tensor_view&) const {
  no_kernel("push_history");
}
void device_ops::freeze_two_centroids(const candidate_set&, const tensor_view&, const std::int32_t*,
                                      const freeze_params&, std::uint8_t*) const {
  no_kernel("freeze_two_centroids");
}
void device_ops::mark_unsettled(const tensor_view&, const settle_params&, const std::int32_t*,
                                const std::int32_t*, const std::uint8_t*,
                                const tensor_view&) const {
  no_kernel("mark_unsettled");
}

}  // namespace unmask::cuda::UNMASK_TARGET
