// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <stdexcept>

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/scores_kernels.h"
#include "kernels/cuda/select_kernels.h"
#include "kernels/selection.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

// Blocks that share one segment. The lengths are known on the device only; a block whose piece is
// beyond the end returns at once.
constexpr unsigned segment_pieces = 64;

void top_indices(const device_backend& device, const op::top_indices& args) {
  const std::size_t chunk = sort_chunk * sizeof(std::uint64_t);
  device.work().launch("top_indices",
                       {blocks_for(args.segments, 1), sort_threads, group_bytes + chunk},
                       top_indices_kernel,
                       {device.in(args.begin), device.in(args.score), device.in(args.out_begin),
                        device.out(args.out), device.fault_word(device_fault::top_indices)});
}

void key_scores(const device_backend& device, const op::key_scores& args) {
  const auto heads = static_cast<std::int32_t>(args.q.shape[1]);
  const auto dim = static_cast<std::int32_t>(args.q.shape[2]);
  const key_scores_params p{device.in(args.q).as<float>(),
                            args.q.row_stride,
                            heads,
                            dim,
                            heads / static_cast<std::int32_t>(args.cache.keys.shape[2]),
                            keys_of(device.in(args.cache)),
                            device.in(args.keys.kv_length),
                            device.in(args.keys.key_begin),
                            device.in(args.keys.key_slot),
                            device.out(args.score)};
  const std::size_t query = (static_cast<std::size_t>(p.keys.width) + 1) / 2 * 16;
  device.work().launch(
      "key_scores",
      {blocks_for(args.q.rows(), 1), group_threads, group_bytes + query, segment_pieces},
      key_scores_kernel, p);
}

void importance(const device_backend& device, const op::importance& args) {
  const auto heads = static_cast<std::int32_t>(args.q.shape[1]);
  const auto dim = static_cast<std::int32_t>(args.q.shape[2]);
  if (args.k.type != args.q.type) throw std::logic_error("importance: q and k differ in type");
  const importance_params p{
      heads, dim, heads / static_cast<std::int32_t>(args.k.shape[1]), device.in(args.begin),
      device.in(args.index), device.in(args.q).data, args.q.row_stride, device.in(args.k).data,
      args.k.row_stride, args.scale,
      dim % 8 == 0 && in_groups(2, args.q, dim) && in_groups(2, args.k, dim),
      // A row is listed once at most.
      device.work().scratch<double>(scratch_slot::selection_a, args.q.rows() * heads),
      device.out(args.out)};
  device.work().launch(
      "importance",
      {blocks_for(args.sequences, 1), importance_warps * warp_size, group_bytes + importance_shared,
       static_cast<unsigned>(heads)},
      instance_for(args.q, importance_kernel<dtype::f32>, importance_kernel<dtype::bf16>), p);
  device.work().launch("importance: sum",
                       {blocks_for(args.sequences, 1), importance_warps * warp_size, 0, 2},
                       importance_sum_kernel, p);
}

}  // namespace

const register_operations<top_indices, key_scores, importance> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
