// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/decide_kernels.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/decisions.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

grid_shape warp_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), warp_size};
}

void accept_top(const device_backend& device, const op::accept_top& args) {
  device.work().launch("accept_top", block_each(args.candidates.sequences), accept_top_kernel,
                       {device.in(args.candidates), device.in(args.score), device.in(args.quota),
                        device.out(args.accept)});
}

void accept_threshold(const device_backend& device, const op::accept_threshold& args) {
  device.work().launch("accept_threshold", block_each(args.candidates.sequences),
                       accept_threshold_kernel,
                       {device.in(args.candidates), device.in(args.score), args.threshold,
                        args.strict, args.always_best, device.out(args.accept)});
}

void merge_accept(const device_backend& device, const op::merge_accept& args) {
  device.work().launch("merge_accept", {blocks_for(args.count, group_threads), group_threads},
                       merge_accept_kernel,
                       {args.count, device.in(args.also), args.both, device.out(args.accept)});
}

void uniform_scores(const device_backend& device, const op::uniform_scores& args) {
  device.work().launch("uniform_scores", {blocks_for(args.candidates.sequences, 1), group_threads},
                       uniform_scores_kernel,
                       {device.in(args.candidates), device.in(args.noise), device.out(args.score)});
}

void commit(const device_backend& device, const op::commit& args) {
  device.work().launch("commit", warp_each(args.candidates.sequences), commit_kernel,
                       {device.in(args.candidates),
                        device.in(args.token),
                        device.in(args.accept),
                        args.mask_id,
                        args.mask_token,
                        device.out(args.canvas).as<std::int32_t>(),
                        args.canvas.row_stride,
                        device.out(args.state).as<std::uint8_t>(),
                        args.state.row_stride,
                        args.held.data ? device.out(args.held).as<std::int32_t>() : nullptr,
                        args.held.row_stride,
                        {device.out(args.counts.taken), device.out(args.counts.replaced),
                         device.out(args.counts.reopened), device.out(args.counts.refused)}});
}

void combine_scores(const device_backend& device, const op::combine_scores& args) {
  device.work().launch(
      "combine_scores", {blocks_for(args.count, group_threads), group_threads},
      combine_scores_kernel,
      {args.count, device.in(args.a), args.wa, device.in(args.b), args.wb, device.out(args.out)});
}

void round_bf16(const device_backend& device, const op::round_bf16& args) {
  device.work().launch("round_bf16", {blocks_for(args.count, group_threads), group_threads},
                       round_bf16_kernel, {args.count, device.out(args.x)});
}

}  // namespace

const register_operations<accept_top, accept_threshold, merge_accept, uniform_scores, commit,
                          combine_scores, round_bf16>
    registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
