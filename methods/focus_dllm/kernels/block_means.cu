// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/groups.h"
#include "methods/focus_dllm/kernels/block_means.h"

namespace unmask::cuda::UNMASK_TARGET {

struct block_mean_keys_params {
  cached_keys keys;
  const std::int32_t* kv_length;
  std::int32_t block;
  const std::int32_t* block_begin;
  const std::int32_t* first_block;  // null: 0
  float* out;
  std::int64_t out_stride;
};

// Grid: sequences x pieces. A block for each key block, a thread for each dimension: the slots are
// summed in their order.
UNMASK_KERNEL void block_mean_keys_kernel(block_mean_keys_params p) {
  const int s = static_cast<int>(block_index());
  const int blocks = p.block_begin[s + 1] - p.block_begin[s];
  for (int b = static_cast<int>(block_index_y()); b < blocks;
       b += static_cast<int>(grid_size_y())) {
    const int first = (p.first_block != nullptr ? p.first_block[s] + b : b) * p.block;
    const int end = first + p.block;
    const int last = p.kv_length[s] < end ? p.kv_length[s] : end;
    float* to = p.out + (p.block_begin[s] + b) * p.out_stride;
    for (int d = static_cast<int>(thread_index()); d < p.keys.width;
         d += static_cast<int>(block_size())) {
      double sum = 0;
      for (int slot = first; slot < last; ++slot) {
        const std::int64_t at = key_at(p.keys, s, slot) + d;
        sum += key_value(p.keys, at);
      }
      to[d] = last > first ? static_cast<float>(sum / (last - first)) : 0.0F;
    }
  }
}

namespace {

constexpr unsigned segment_pieces = 64;  // blocks that share the key blocks of one sequence

void block_mean_keys(const device_ops& device, const op::block_mean_keys& args) {
  device.work().launch("block_mean_keys",
                       {blocks_for(args.sequences, 1), group_threads, 0, segment_pieces},
                       block_mean_keys_kernel,
                       {keys_of(args.cache), args.kv_length, args.block, args.block_begin,
                        args.first_block, args.out.as<float>(), args.out.row_stride});
}

}  // namespace

const register_operations<block_mean_keys> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
