// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/attention_refresh_kernels.h"
#include "kernels/cuda/device_backend.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

template <int dim>
void launch(queue& q, const attention_params& p, unsigned blocks) {
  q.launch("attention_refresh", {blocks, refresh_shape<dim>::threads, refresh_shared_bytes<dim>},
           attention_refresh_kernel<dim>, p);
}

}  // namespace

bool takes_refresh_attention(const device_backend& device, const attention_params& p,
                             std::int64_t packed_rows) {
  static const bool has_wgmma = queue::has_wgmma(attention_refresh_kernel<128>);
  return has_wgmma && p.tiles.keep == nullptr && p.key_begin == nullptr &&
         packed_rows >= refresh_rows * p.sequences &&
         device.may_multiply(multiplied::attention, multiplier::newer);
}

void launch_refresh_attention(const device_backend& device, const attention_params& p,
                              unsigned blocks) {
  p.dim == 64 ? launch<64>(device.work(), p, blocks) : launch<128>(device.work(), p, blocks);
}

}  // namespace unmask::cuda::UNMASK_TARGET
