// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/attention_tensor_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

// 16, 32, 64 or 128 packed rows per block: the smallest that holds an average sequence's rows,
// because rows beyond them are computed for nothing, and keys are read once for all of them.
int tensor_tile_rows(std::int64_t packed_rows, int sequences) {
  const std::int64_t average = (packed_rows + sequences - 1) / sequences;
  return average <= 16 ? 16 : (average <= 32 ? 32 : (average <= 64 ? 64 : 128));
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

namespace {

constexpr int tensor_stages = 2;

template <int dim, int warps, int row_tiles>
void launch_rows(queue& q, const attention_params& p, unsigned blocks) {
  q.launch("attention_tensor",
           {blocks, static_cast<unsigned>(warps * warp_size),
            tensor_shared_bytes(dim, warps * row_tiles * 16, tensor_stages)},
           attention_tensor_kernel<dim, warps, tensor_stages, row_tiles>, p);
}

template <int dim>
void launch_dim(queue& q, const attention_params& p, unsigned blocks) {
  if (p.tile_rows == 16) launch_rows<dim, 1, 1>(q, p, blocks);
  if (p.tile_rows == 32) launch_rows<dim, 2, 1>(q, p, blocks);
  if (p.tile_rows == 64) launch_rows<dim, 4, 1>(q, p, blocks);
  // 32 rows of 128 dimensions do not fit into a warp's registers: ptxas spills 52 bytes. Eight warps
  // then share the keys instead.
  if (p.tile_rows == 128) launch_rows<dim, dim == 64 ? 4 : 8, dim == 64 ? 2 : 1>(q, p, blocks);
}

}  // namespace

void launch_tensor_attention(queue& q, const attention_params& p, unsigned blocks) {
  p.dim == 64 ? launch_dim<64>(q, p, blocks) : launch_dim<128>(q, p, blocks);
}

}  // namespace unmask::cuda::UNMASK_TARGET
