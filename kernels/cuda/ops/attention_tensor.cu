// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/attention_tensor_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

// 16, 32 or 64 packed rows per block: the smallest that holds an average sequence's rows, because
// rows beyond them are computed for nothing.
int tensor_tile_rows(std::int64_t packed_rows, int sequences) {
  const std::int64_t average = (packed_rows + sequences - 1) / sequences;
  return average <= 16 ? 16 : (average <= 32 ? 32 : 64);
}

bool can_use_tensor_cores(const attention_params& p) {
  const auto aligned = [](const cache_side& side) {
    return side.type == dtype::bf16 && reinterpret_cast<std::uintptr_t>(side.data) % 16 == 0 &&
           side.page_stride % 8 == 0;
  };
  const bool pairs = p.out_type == dtype::f32 ||
                     (p.out_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(p.out) % 4 == 0);
  return pairs && (p.dim == 64 || p.dim == 128) && aligned(p.keys) && aligned(p.values) &&
         p.key_mass == nullptr && p.tiles.keep == nullptr;
}

void launch_tensor_attention(queue& q, const attention_params& p, unsigned blocks) {
  constexpr int stages = 2;
  const auto launch = [&](void (*kernel)(attention_params), int warps) {
    q.launch("attention_tensor",
             {blocks, static_cast<unsigned>(warps * warp_size),
              tensor_shared_bytes(p.dim, warps, stages)},
             kernel, p);
  };
  if (p.dim == 64) {
    if (p.tile_rows == 16) launch(attention_tensor_kernel<64, 1, stages>, 1);
    if (p.tile_rows == 32) launch(attention_tensor_kernel<64, 2, stages>, 2);
    if (p.tile_rows == 64) launch(attention_tensor_kernel<64, 4, stages>, 4);
  } else {
    if (p.tile_rows == 16) launch(attention_tensor_kernel<128, 1, stages>, 1);
    if (p.tile_rows == 32) launch(attention_tensor_kernel<128, 2, stages>, 2);
    if (p.tile_rows == 64) launch(attention_tensor_kernel<128, 4, stages>, 4);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
