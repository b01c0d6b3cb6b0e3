// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/multi_block/kernels/accept_blocks.h"

namespace unmask::cuda::UNMASK_TARGET {

struct in_blocks_params {
  candidate_set candidates;
  const float* probability;
  const float* score;
  float threshold;
  std::int32_t block;
  const std::int32_t* origin;
  const std::uint8_t* forced;
  std::int64_t forced_stride;
  std::uint8_t* accept;
};

// One block for each sequence, one thread for each candidate, which looks through its own block of
// positions to both sides.
UNMASK_KERNEL void accept_in_blocks_kernel(in_blocks_params p) {
  const int s = static_cast<int>(block_index());
  const int begin = p.candidates.begin[s], end = p.candidates.begin[s + 1];
  const auto block_of = [&](int c) { return (p.candidates.position[c] - p.origin[s]) / p.block; };
  for (int c = begin + static_cast<int>(thread_index()); c < end;
       c += static_cast<int>(block_size())) {
    const int block = block_of(c);
    const bool passes = p.probability[c] > p.threshold;
    bool best = !passes && p.forced[s * p.forced_stride + block] != 0;
    for (int i = c - 1; best && i >= begin && block_of(i) == block; --i) {
      best = !(p.probability[i] > p.threshold) && p.score[c] > p.score[i];
    }
    for (int i = c + 1; best && i < end && block_of(i) == block; ++i) {
      best = !(p.probability[i] > p.threshold) && !(p.score[i] > p.score[c]);
    }
    p.accept[c] = passes || best ? 1 : 0;
  }
}

namespace {

void accept_in_blocks(const device_backend& device, const op::accept_in_blocks& args) {
  device.work().launch(
      "accept_in_blocks", {blocks_for(args.candidates.sequences, 1), group_threads},
      accept_in_blocks_kernel,
      {device.in(args.candidates), device.in(args.probability), device.in(args.score),
       args.threshold, args.block, device.in(args.origin),
       device.in(args.forced).as<std::uint8_t>(), args.forced.row_stride, device.out(args.accept)});
}

}  // namespace

const register_operations<accept_in_blocks> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
