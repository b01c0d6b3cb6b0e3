// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/decide_kernels.h"
#include "kernels/cuda/device_ops.h"
#include "kernels/decisions.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

grid_shape block_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), group_threads, group_bytes};
}
grid_shape warp_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), warp_size};
}

void accept_top(const device_ops& device, const op::accept_top& args) {
  device.work().launch("accept_top", block_each(args.candidates.sequences), accept_top_kernel,
                       {args.candidates, args.score, args.quota, args.accept});
}

void accept_threshold(const device_ops& device, const op::accept_threshold& args) {
  device.work().launch(
      "accept_threshold", block_each(args.candidates.sequences), accept_threshold_kernel,
      {args.candidates, args.score, args.threshold, args.strict, args.always_best, args.accept});
}

void merge_accept(const device_ops& device, const op::merge_accept& args) {
  device.work().launch("merge_accept", {blocks_for(args.count, group_threads), group_threads},
                       merge_accept_kernel, {args.count, args.also, args.both, args.accept});
}

void uniform_scores(const device_ops& device, const op::uniform_scores& args) {
  device.work().launch("uniform_scores", {blocks_for(args.candidates.sequences, 1), group_threads},
                       uniform_scores_kernel, {args.candidates, args.noise, 1.0F, args.score});
}

void commit(const device_ops& device, const op::commit& args) {
  device.work().launch("commit", warp_each(args.candidates.sequences), commit_kernel,
                       {args.candidates, args.token, args.accept, args.decoded_state, args.mask_id,
                        args.canvas.as<std::int32_t>(), args.canvas.row_stride,
                        args.state.as<std::uint8_t>(), args.state.row_stride, args.committed});
}

void combine_scores(const device_ops& device, const op::combine_scores& args) {
  device.work().launch("combine_scores", {blocks_for(args.count, group_threads), group_threads},
                       combine_scores_kernel,
                       {args.count, args.a, args.wa, args.b, args.wb, args.out});
}

void round_bf16(const device_ops& device, const op::round_bf16& args) {
  device.work().launch("round_bf16", {blocks_for(args.count, group_threads), group_threads},
                       round_bf16_kernel, {args.count, args.x});
}

}  // namespace

const register_operations<accept_top, accept_threshold, merge_accept, uniform_scores, commit,
                          combine_scores, round_bf16>
    registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
