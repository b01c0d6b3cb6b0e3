// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::fill_flags(std::int32_t, const std::int32_t*, const std::int32_t*, std::uint8_t,
                            const tensor_view&) const {
  no_kernel("fill_flags");
}
void device_ops::scatter_flags(const row_set&, const std::uint8_t*, std::uint8_t,
                               const tensor_view&) const {
  no_kernel("scatter_flags");
}
void device_ops::freeze(std::int32_t, const tensor_view&, const std::int32_t*, const std::int32_t*,
                        bool, const tensor_view&) const {
  no_kernel("freeze");
}
void device_ops::row_extent(const row_set&, std::int32_t*) const {
  no_kernel("row_extent");
}
void device_ops::combine_scores(std::int32_t, const float*, float, const float*, float,
                                float*) const {
  no_kernel("combine_scores");
}
void device_ops::round_bf16(std::int32_t, float*) const {
  no_kernel("round_bf16");
}
void device_ops::retain(const candidate_set&, const float*, const retain_params&,
                        std::uint8_t*) const {
  no_kernel("retain");
}
std::int32_t device_ops::drop_rows(const row_set&, const candidate_set&, const std::uint8_t*,
                                   std::int32_t*, std::int32_t*, std::int32_t*,
                                   std::int32_t*) const {
  no_kernel("drop_rows");
}
std::int32_t device_ops::select_chunk(std::int32_t, const tensor_view&, const chunk_params&,
                                      std::int32_t*, std::int32_t*, std::int32_t*, std::int32_t*,
                                      std::uint8_t*) const {
  no_kernel("select_chunk");
}

}  // namespace unmask::cuda::UNMASK_TARGET
