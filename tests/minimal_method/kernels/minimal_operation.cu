// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The kernel and its launch. The same source runs on the GPU and in the emulator. The parameters of
// the operation hold nothing but numbers and pointers, so the kernel takes them as they are, with
// what it reads and writes where kernels find it.
#include "kernels/cuda/device_backend.h"
#include "tests/minimal_method/kernels/minimal_operation.h"

namespace unmask::cuda::UNMASK_TARGET {

// One warp for each sequence, one lane for each candidate.
UNMASK_KERNEL void accept_leftmost_kernel(op::accept_leftmost p) {
  const int s = static_cast<int>(block_index());
  const int first = p.candidates.begin[s], last = p.candidates.begin[s + 1];
  for (int c = first + lane_index(); c < last; c += warp_size) {
    p.accept[c] = c - first < p.quota[s] ? 1 : 0;
  }
}

namespace {

void accept_leftmost(const device_backend& device, const op::accept_leftmost& args) {
  device.work().launch(
      "accept_leftmost", {blocks_for(args.candidates.sequences, 1), warp_size},
      accept_leftmost_kernel,
      {device.in(args.candidates), device.in(args.quota), device.out(args.accept)});
}

}  // namespace

const register_operations<accept_leftmost> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
