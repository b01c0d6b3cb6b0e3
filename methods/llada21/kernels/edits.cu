// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "methods/llada21/kernels/edits.h"

namespace unmask::cuda::UNMASK_TARGET {

struct edit_params {
  candidate_set candidates;
  const std::int32_t* canvas;
  std::int64_t canvas_stride;
  const std::uint8_t* state;
  std::int64_t state_stride;
  const std::int32_t* token;
  const float* probability;
  float threshold;
  float* score;
  std::uint8_t* accept;
};

// One warp for each sequence, one lane for each candidate.
UNMASK_KERNEL void score_masks_kernel(edit_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  for (int c = p.candidates.begin[s] + group.rank(); c < p.candidates.begin[s + 1];
       c += group.size()) {
    const std::uint8_t state = p.state[s * p.state_stride + p.candidates.position[c]];
    p.score[c] = state == state_masked ? p.probability[c] : -INFINITY;
  }
}

UNMASK_KERNEL void accept_edits_kernel(edit_params p) {
  const warp_group group;
  const int s = static_cast<int>(block_index());
  for (int c = p.candidates.begin[s] + group.rank(); c < p.candidates.begin[s + 1];
       c += group.size()) {
    const std::int64_t position = p.candidates.position[c];
    if (p.state[s * p.state_stride + position] == state_masked) continue;
    const bool other = p.token[c] != p.canvas[s * p.canvas_stride + position];
    p.accept[c] = other && p.probability[c] > p.threshold ? decision_replace : decision_keep;
  }
}

namespace {

void score_masks(const device_backend& device, const op::score_masks& args) {
  edit_params p{};
  p.candidates = device.in(args.candidates);
  p.state = device.in(args.state).as<std::uint8_t>();
  p.state_stride = args.state.row_stride;
  p.probability = device.in(args.probability);
  p.score = device.out(args.score);
  device.work().launch("score_masks", {blocks_for(args.candidates.sequences, 1), warp_size},
                       score_masks_kernel, p);
}

void accept_edits(const device_backend& device, const op::accept_edits& args) {
  edit_params p{};
  p.candidates = device.in(args.candidates);
  p.canvas = device.in(args.canvas).as<std::int32_t>();
  p.canvas_stride = args.canvas.row_stride;
  p.state = device.in(args.state).as<std::uint8_t>();
  p.state_stride = args.state.row_stride;
  p.token = device.in(args.token);
  p.probability = device.in(args.probability);
  p.threshold = args.threshold;
  p.accept = device.out(args.accept);
  device.work().launch("accept_edits", {blocks_for(args.candidates.sequences, 1), warp_size},
                       accept_edits_kernel, p);
}

}  // namespace

const register_operations<score_masks, accept_edits> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
