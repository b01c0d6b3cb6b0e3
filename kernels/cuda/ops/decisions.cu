// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::accept_top(const candidate_set&, const float*, const std::int32_t*,
                            std::uint8_t*) const {
  no_kernel("accept_top");
}
void device_ops::accept_threshold(const candidate_set&, const float*, float, bool, bool,
                                  std::uint8_t*) const {
  no_kernel("accept_threshold");
}
void device_ops::accept_factor(const candidate_set&, const float*, float, std::uint8_t*) const {
  no_kernel("accept_factor");
}
void device_ops::merge_accept(std::int32_t, const std::uint8_t*, bool, std::uint8_t*) const {
  no_kernel("merge_accept");
}
void device_ops::accept_sequential(const candidate_set&, const std::int32_t*, std::int32_t,
                                   const std::int32_t*, std::uint8_t*) const {
  no_kernel("accept_sequential");
}
void device_ops::uniform_scores(const candidate_set&, const noise_source&, float*) const {
  no_kernel("uniform_scores");
}
void device_ops::gumbel_scores(const candidate_set&, const noise_source&, float, float*) const {
  no_kernel("gumbel_scores");
}
void device_ops::commit(const candidate_set&, const std::int32_t*, const std::uint8_t*,
                        std::uint8_t, std::int32_t, const tensor_view&, const tensor_view&,
                        std::int32_t*) const {
  no_kernel("commit");
}

}  // namespace unmask::cuda::UNMASK_TARGET
