// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/parts/kernels/block_acceptance.h"

namespace unmask::cuda::UNMASK_TARGET {

// One warp for each sequence.
UNMASK_KERNEL void accept_sequential_kernel(op::accept_sequential p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], last = p.candidates.begin[s + 1];
  const int low = p.block_begin[s], high = low + p.block;
  int start = 0x7FFFFFFF;
  for (int c = first + group.rank(); c < last; c += group.size()) {
    const int position = p.candidates.position[c];
    if (position >= low && position < high && position < start) start = position;
  }
  start = group_min(group, start);
  for (int c = first + group.rank(); c < last; c += group.size()) {
    const int position = p.candidates.position[c];
    const bool inside = position >= low && position < high;
    // `start` is the lowest: the distance is not negative and below the block.
    p.accept[c] = inside && position - start < p.quota[s] ? 1 : 0;
  }
}

namespace {

void accept_sequential(const device_backend& device, const op::accept_sequential& args) {
  device.work().launch("accept_sequential", {blocks_for(args.candidates.sequences, 1), warp_size},
                       accept_sequential_kernel,
                       {device.in(args.candidates), device.in(args.block_begin), args.block,
                        device.in(args.quota), device.out(args.accept)});
}

}  // namespace

const register_operations<accept_sequential> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
