// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/decide_kernels.h"
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

grid_shape block_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), group_threads, group_bytes};
}
grid_shape warp_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), warp_size};
}

}  // namespace

void device_ops::accept_top(const candidate_set& candidates, const float* score,
                            const std::int32_t* quota, std::uint8_t* accept) const {
  queue_.launch("accept_top", block_each(candidates.sequences), accept_top_kernel,
                {candidates, score, quota, accept});
}

void device_ops::accept_threshold(const candidate_set& candidates, const float* score,
                                  float threshold, bool strict, bool always_best,
                                  std::uint8_t* accept) const {
  queue_.launch("accept_threshold", block_each(candidates.sequences), accept_threshold_kernel,
                {candidates, score, threshold, strict, always_best, accept});
}

void device_ops::accept_factor(const candidate_set& candidates, const float* score, float factor,
                               std::uint8_t* accept) const {
  queue_.launch("accept_factor", block_each(candidates.sequences), accept_factor_kernel,
                {candidates, score, factor, accept});
}

void device_ops::accept_sequential(const candidate_set& candidates, const std::int32_t* block_begin,
                                   std::int32_t block, const std::int32_t* quota,
                                   std::uint8_t* accept) const {
  queue_.launch("accept_sequential", warp_each(candidates.sequences), accept_sequential_kernel,
                {candidates, block_begin, block, quota, accept});
}

void device_ops::merge_accept(std::int32_t count, const std::uint8_t* also, bool both,
                              std::uint8_t* accept) const {
  queue_.launch("merge_accept", {blocks_for(count, group_threads), group_threads},
                merge_accept_kernel, {count, also, both, accept});
}

void device_ops::uniform_scores(const candidate_set& candidates, const noise_source& noise,
                                float* score) const {
  queue_.launch("uniform_scores", {blocks_for(candidates.sequences, 1), group_threads},
                uniform_scores_kernel, {candidates, noise, 1.0F, score});
}

void device_ops::gumbel_scores(const candidate_set& candidates, const noise_source& noise,
                               float temperature, float* score) const {
  queue_.launch("gumbel_scores", {blocks_for(candidates.sequences, 1), group_threads},
                gumbel_scores_kernel, {candidates, noise, temperature, score});
}

void device_ops::commit(const candidate_set& candidates, const std::int32_t* token,
                        const std::uint8_t* accept, std::uint8_t decoded_state,
                        std::int32_t mask_id, const tensor_view& canvas, const tensor_view& state,
                        std::int32_t* committed) const {
  queue_.launch("commit", warp_each(candidates.sequences), commit_kernel,
                {candidates, token, accept, decoded_state, mask_id, canvas.as<std::int32_t>(),
                 canvas.row_stride, state.as<std::uint8_t>(), state.row_stride, committed});
}

}  // namespace unmask::cuda::UNMASK_TARGET
