// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::gather_rows(const tensor_view&, const std::int32_t*, const tensor_view&) const {
  no_kernel("gather_rows");
}
void device_ops::scatter_rows(const tensor_view&, const std::int32_t*, const tensor_view&) const {
  no_kernel("scatter_rows");
}
std::int32_t device_ops::compact(std::int32_t, const tensor_view&, std::uint8_t,
                                 const std::int32_t*, const std::int32_t*, std::int32_t*,
                                 std::int32_t*, std::int32_t*) const {
  no_kernel("compact");
}
void device_ops::find_rows(const row_set&, const row_set&, std::int32_t*) const {
  no_kernel("find_rows");
}
void device_ops::gather_tokens(const row_set&, const tensor_view&, std::int32_t*) const {
  no_kernel("gather_tokens");
}
std::int32_t device_ops::find_candidates(const row_set&, const tensor_view&, std::uint8_t,
                                         const std::int32_t*, const std::int32_t*, std::int32_t,
                                         std::int32_t*, std::int32_t*, std::int32_t*) const {
  no_kernel("find_candidates");
}
void device_ops::mean_rows(const row_set&, const tensor_view&, const tensor_view&) const {
  no_kernel("mean_rows");
}
void device_ops::row_distance(const tensor_view&, const tensor_view&, float*) const {
  no_kernel("row_distance");
}

}  // namespace unmask::cuda::UNMASK_TARGET
