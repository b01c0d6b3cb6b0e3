// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::block_mass(const row_set&, const tensor_view&, const paged_kv&,
                            const std::int32_t*, const std::int32_t*, std::int32_t, float,
                            const tensor_view&) const {
  no_kernel("block_mass");
}
void device_ops::keep_top_blocks(const tensor_view&, const std::int32_t*, const std::int32_t*,
                                 const std::int32_t*, const std::int32_t*,
                                 const tensor_view&) const {
  no_kernel("keep_top_blocks");
}
void device_ops::block_mask_keys(const tensor_view&, const std::uint8_t*, std::int32_t,
                                 const std::int32_t*, const tensor_view&) const {
  no_kernel("block_mask_keys");
}

}  // namespace unmask::cuda::UNMASK_TARGET
