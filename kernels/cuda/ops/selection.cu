// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::top_indices(std::int32_t, const std::int32_t*, const float*, const std::int32_t*,
                             std::int32_t*) const {
  no_kernel("top_indices");
}
void device_ops::pool(std::int32_t, const std::int32_t*, const float*, std::int32_t, bool,
                      float*) const {
  no_kernel("pool");
}
void device_ops::key_scores(const tensor_view&, const paged_kv&, const key_set&, float*) const {
  no_kernel("key_scores");
}
void device_ops::block_mean_keys(std::int32_t, const paged_kv&, const std::int32_t*, std::int32_t,
                                 const std::int32_t*, const tensor_view&,
                                 const std::int32_t*) const {
  no_kernel("block_mean_keys");
}
void device_ops::importance(std::int32_t, const std::int32_t*, const std::int32_t*,
                            const tensor_view&, const tensor_view&, float, float*) const {
  no_kernel("importance");
}
void device_ops::mark_top(const row_set&, const float*, const std::int32_t*,
                          const tensor_view&) const {
  no_kernel("mark_top");
}

}  // namespace unmask::cuda::UNMASK_TARGET
