// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/hierarchical/kernels/runs.h"

namespace unmask::cuda::UNMASK_TARGET {

// One block for each sequence, one thread for each candidate, which looks along its run to both
// sides until it meets a better one.
UNMASK_KERNEL void accept_run_best_kernel(op::accept_run_best p) {
  const int s = static_cast<int>(block_index());
  const int begin = p.candidates.begin[s], end = p.candidates.begin[s + 1];
  const std::int32_t* position = p.candidates.position;
  for (int c = begin + static_cast<int>(thread_index()); c < end;
       c += static_cast<int>(block_size())) {
    const float mine = p.score[c];
    bool best = mine > -INFINITY && mine > p.above;
    for (int i = c; best && i > begin && position[i - 1] == position[i] - 1; --i) {
      best = !(p.score[i - 1] > mine);
    }
    for (int i = c; best && i + 1 < end && position[i + 1] == position[i] + 1; ++i) {
      best = !(p.score[i + 1] > mine);
    }
    p.accept[c] = best ? 1 : 0;
  }
}

namespace {

void accept_run_best(const device_backend& device, const op::accept_run_best& args) {
  device.work().launch(
      "accept_run_best", {blocks_for(args.candidates.sequences, 1), group_threads},
      accept_run_best_kernel,
      {device.in(args.candidates), device.in(args.score), args.above, device.out(args.accept)});
}

}  // namespace

const register_operations<accept_run_best> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
