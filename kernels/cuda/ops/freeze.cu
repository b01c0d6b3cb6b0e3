// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/freeze_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

void device_ops::push_history(const candidate_set& candidates, const float* score, bool replicate,
                              const tensor_view& history) const {
  queue_.launch("push_history", {blocks_for(candidates.sequences, 1), group_threads},
                push_history_kernel,
                {candidates, score, replicate, history.as<float>(), history.row_stride,
                 static_cast<std::int32_t>(history.shape[2])});
}

void device_ops::freeze_two_centroids(const candidate_set& candidates, const tensor_view& history,
                                      const std::int32_t* rank, const freeze_params& params,
                                      std::uint8_t* accept) const {
  const auto depth = static_cast<std::int32_t>(history.shape[2]);
  const auto length = static_cast<std::int32_t>(history.shape[1]);
  std::int32_t* order =
      params.tier_mean ? queue_.scratch<std::int32_t>(scratch_slot::selection_a,
                                                      std::int64_t{candidates.sequences} * length)
                       : nullptr;
  const std::size_t centroid = (static_cast<std::size_t>(depth) + 1) / 2 * 16;
  queue_.launch("freeze_two_centroids",
                {blocks_for(candidates.sequences, 1), group_threads, group_bytes + 2 * centroid},
                freeze_two_centroids_kernel,
                {candidates, history.as<float>(), history.row_stride, depth, length, rank, params,
                 accept, order});
}

void device_ops::mark_unsettled(const tensor_view& state, const settle_params& params,
                                const std::int32_t* first, const std::int32_t* last,
                                const std::uint8_t* whole, const tensor_view& flags) const {
  queue_.launch("mark_unsettled", {blocks_for(state.rows(), 1), group_threads},
                mark_unsettled_kernel,
                {state.as<std::uint8_t>(), state.row_stride, params, first, last, whole,
                 flags.as<std::uint8_t>(), flags.row_stride});
}

}  // namespace unmask::cuda::UNMASK_TARGET
