// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/cached_keys.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/parts/kernels/block_means.h"

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

// One block for each sequence.
UNMASK_KERNEL void mark_context_kernel(op::mark_context p) {
  const int s = static_cast<int>(block_index());
  const int rank = static_cast<int>(thread_index()), step = static_cast<int>(block_size());
  const int length = p.length[s], from = p.seen_from[s];
  std::uint8_t* flags = static_cast<std::uint8_t*>(p.flags.data) + s * p.flags.row_stride;
  for (int at = rank; at < length; at += step) flags[at] = at >= from ? 1 : 0;
  sync_block();
  const int listed = (p.top_begin[s + 1] - p.top_begin[s]) * p.block;
  for (int i = rank; i < listed; i += step) {
    const int at = p.top[p.top_begin[s] + i / p.block] * p.block + i % p.block;
    if (at < from) flags[at] = 1;
  }
  if (p.sink == nullptr) return;
  for (int i = p.sink_begin[2 * s] + rank; i < p.sink_begin[2 * s + 1]; i += step) {
    flags[p.sink[i]] = 1;
  }
}

namespace {

constexpr unsigned segment_pieces = 64;  // blocks that share the key blocks of one sequence

void block_mean_keys(const device_backend& device, const op::block_mean_keys& args) {
  device.work().launch("block_mean_keys",
                       {blocks_for(args.sequences, 1), group_threads, 0, segment_pieces},
                       block_mean_keys_kernel,
                       {keys_of(device.in(args.cache)), device.in(args.kv_length), args.block,
                        device.in(args.block_begin), device.in(args.first_block),
                        device.out(args.out).as<float>(), args.out.row_stride});
}

void mark_context(const device_backend& device, const op::mark_context& args) {
  device.work().launch("mark_context", {blocks_for(args.sequences, 1), group_threads},
                       mark_context_kernel,
                       {args.sequences, device.in(args.length), device.in(args.seen_from),
                        args.block, device.in(args.top_begin), device.in(args.top),
                        device.in(args.sink_begin), device.in(args.sink), device.out(args.flags)});
}

}  // namespace

const register_operations<block_mean_keys, mark_context> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
