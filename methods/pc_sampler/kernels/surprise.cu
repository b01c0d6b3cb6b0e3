// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/pc_sampler/kernels/surprise.h"

namespace unmask::cuda::UNMASK_TARGET {

// One block for each sequence, one thread for each candidate.
UNMASK_KERNEL void surprise_scores_kernel(op::surprise_scores p) {
  const int s = static_cast<int>(block_index());
  const int end = p.candidates.begin[s + 1];
  for (int c = p.candidates.begin[s] + static_cast<int>(thread_index()); c < end;
       c += static_cast<int>(block_size())) {
    const int place = p.candidates.position[c] - p.first[s];
    const int at = place < 0 ? 0 : place < p.places ? place : p.places - 1;
    const float worth = p.probability[c] * p.surprise[p.token[c]];
    p.score[c] = p.weight[at] * (p.limit < worth ? p.limit : worth);
  }
}

namespace {

void surprise_scores(const device_backend& device, const op::surprise_scores& args) {
  device.work().launch("surprise_scores", {blocks_for(args.candidates.sequences, 1), group_threads},
                       surprise_scores_kernel,
                       {device.in(args.candidates), device.in(args.first), device.in(args.weight),
                        args.places, device.in(args.surprise), device.in(args.token),
                        device.in(args.probability), args.limit, device.out(args.score)});
}

}  // namespace

const register_operations<surprise_scores> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
