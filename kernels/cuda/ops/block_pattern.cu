// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/pattern_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::block_mass(const row_set& rows, const tensor_view& q, const paged_kv& cache,
                            const std::int32_t* kv_length, const std::int32_t* first_slot,
                            std::int32_t size, float scale, const tensor_view& out) const {
  const auto heads = static_cast<std::int32_t>(q.shape[1]);
  const auto kv_heads = static_cast<std::int32_t>(cache.keys.shape[2]);
  const auto dim = static_cast<std::int32_t>(q.shape[2]);
  const auto blocks = static_cast<std::int32_t>(out.shape[3]);
  const block_mass_params p{
      rows.row_begin,   rows.position,  q.as<float>(), q.row_stride, heads, dim,
      heads / kv_heads, keys_of(cache), kv_length,     first_slot,   size,  scale,
      out.as<float>(),  out.row_stride, blocks};
  const std::size_t row_room = (static_cast<std::size_t>(size) + 1) / 2 * 16;
  queue_.launch("block_mass",
                {blocks_for(std::int64_t{rows.sequences} * heads, 1), group_threads, 2 * row_room,
                 static_cast<unsigned>(blocks)},
                block_mass_kernel, p);
}

void device_ops::keep_top_blocks(const tensor_view& mass, const std::int32_t* used,
                                 const std::int32_t* first, const std::int32_t* limit,
                                 const std::int32_t* count, const tensor_view& keep) const {
  const auto heads = static_cast<std::int32_t>(mass.shape[1]);
  const auto blocks = static_cast<std::int32_t>(mass.shape[3]);
  const grid_shape shape{blocks_for(mass.rows(), 1), group_threads, 0,
                         blocks_for(std::int64_t{heads} * blocks, group_threads / warp_size)};
  queue_.launch("keep_top_blocks", shape, keep_top_blocks_kernel,
                {mass.as<float>(), mass.row_stride, heads, blocks, used, first, limit, count,
                 keep.as<std::uint8_t>(), keep.row_stride});
}

void device_ops::block_mask_keys(const tensor_view& keep, const std::uint8_t* applies,
                                 std::int32_t size, const std::int32_t* kv_length,
                                 const tensor_view& out) const {
  const auto heads = static_cast<std::int32_t>(keep.shape[1]);
  const auto blocks = static_cast<std::int32_t>(keep.shape[3]);
  queue_.launch(
      "block_mask_keys",
      {blocks_for(keep.rows(), 1), group_threads, 0, blocks_for(blocks, group_threads / warp_size)},
      block_mask_keys_kernel,
      {keep.as<std::uint8_t>(), keep.row_stride, heads, blocks, applies, size, kv_length,
       out.as<float>(), out.row_stride});
}

}  // namespace unmask::cuda::UNMASK_TARGET
