// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/attention_joined_kernels.h"
#include "kernels/cuda/device_backend.h"

namespace unmask::cuda::UNMASK_TARGET {
namespace {

constexpr int joined_dim = 128;

template <int warps, int row_tiles, bool groups = false>
void launch(queue& q, const attention_params& p, unsigned blocks) {
  const std::size_t shared =
      tensor_shared_bytes(joined_dim, warps * row_tiles * 16, tensor_stages) + joined_ticket_bytes;
  q.launch(groups ? "attention_joined: groups" : "attention_joined",
           {blocks, static_cast<unsigned>(warps * warp_size), shared},
           attention_joined_kernel<joined_dim, warps, row_tiles, groups>, p);
}

}  // namespace

bool takes_joined_attention(const device_backend& device, const attention_params& p) {
  static const bool has_wgmma = queue::has_wgmma(attention_joined_kernel<joined_dim, 8, 1, true>);
  return has_wgmma && p.dim == joined_dim && p.tiles.keep == nullptr &&
         device.may_multiply(multiplied::attention, multiplier::newer);
}

void launch_joined_attention(const device_backend& device, const attention_params& p,
                             unsigned blocks) {
  queue& q = device.work();
  if (p.tile_rows == 16) return launch<1, 1>(q, p, blocks);
  if (p.tile_rows == 32) return launch<2, 1>(q, p, blocks);
  if (p.tile_rows == 64) return launch<4, 1>(q, p, blocks);
  if (p.key_begin == nullptr && device.may_multiply(multiplied::attention, multiplier::wgmma)) {
    return launch<8, 1, true>(q, p, blocks);
  }
  launch<4, 2>(q, p, blocks);
}

}  // namespace unmask::cuda::UNMASK_TARGET
