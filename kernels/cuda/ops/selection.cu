// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <stdexcept>

#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/scores_kernels.h"
#include "kernels/cuda/select_kernels.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

// Blocks that share one segment. The lengths are known on the device only; a block whose piece is
// beyond the end returns at once.
constexpr unsigned segment_pieces = 64;

}  // namespace

void device_ops::top_indices(std::int32_t segments, const std::int32_t* begin, const float* score,
                             const std::int32_t* out_begin, std::int32_t* out) const {
  const std::size_t chunk = sort_chunk * sizeof(std::uint64_t);
  queue_.launch("top_indices", {blocks_for(segments, 1), sort_threads, group_bytes + chunk},
                top_indices_kernel,
                {begin, score, out_begin, out, fault_word(device_fault::top_indices)});
  faults_may_be_known();
}

void device_ops::pool(std::int32_t segments, const std::int32_t* begin, const float* in,
                      std::int32_t kernel, bool maximum, float* out) const {
  if (kernel < 1 || kernel % 2 == 0) throw std::logic_error("pool: the window must be odd");
  queue_.launch("pool", {blocks_for(segments, 1), group_threads, 0, segment_pieces}, pool_kernel,
                {begin, in, kernel / 2, maximum, out});
}

void device_ops::key_scores(const tensor_view& q, const paged_kv& cache, const key_set& keys,
                            float* score) const {
  const auto heads = static_cast<std::int32_t>(q.shape[1]);
  const auto dim = static_cast<std::int32_t>(q.shape[2]);
  const key_scores_params p{q.as<float>(),
                            q.row_stride,
                            heads,
                            dim,
                            heads / static_cast<std::int32_t>(cache.keys.shape[2]),
                            keys_of(cache),
                            keys.kv_length,
                            keys.key_begin,
                            keys.key_slot,
                            score};
  const std::size_t query = (static_cast<std::size_t>(p.keys.width) + 1) / 2 * 16;
  queue_.launch("key_scores",
                {blocks_for(q.rows(), 1), group_threads, group_bytes + query, segment_pieces},
                key_scores_kernel, p);
}

void device_ops::block_mean_keys(std::int32_t sequences, const paged_kv& cache,
                                 const std::int32_t* kv_length, std::int32_t block,
                                 const std::int32_t* block_begin, const tensor_view& out,
                                 const std::int32_t* first_block) const {
  queue_.launch("block_mean_keys", {blocks_for(sequences, 1), group_threads, 0, segment_pieces},
                block_mean_keys_kernel,
                {keys_of(cache), kv_length, block, block_begin, first_block, out.as<float>(),
                 out.row_stride});
}

void device_ops::importance(std::int32_t sequences, const std::int32_t* begin,
                            const std::int32_t* index, const tensor_view& q, const tensor_view& k,
                            float scale, float* out) const {
  const auto heads = static_cast<std::int32_t>(q.shape[1]);
  const importance_params p{
      heads, static_cast<std::int32_t>(q.shape[2]), heads / static_cast<std::int32_t>(k.shape[1]),
      begin, index, q.as<float>(), q.row_stride, k.as<float>(), k.row_stride, scale,
      // A row is listed once at most.
      queue_.scratch<double>(scratch_slot::selection_a, q.rows() * heads), out};
  const std::size_t shared =
      group_bytes + std::size_t{2} * importance_warps * importance_row * sizeof(double);
  queue_.launch("importance",
                {blocks_for(sequences, 1), importance_warps * warp_size, shared,
                 static_cast<unsigned>(heads)},
                importance_kernel, p);
  queue_.launch("importance: sum", {blocks_for(sequences, 1), importance_warps * warp_size, 0, 2},
                importance_sum_kernel, p);
}

void device_ops::mark_top(const row_set& some, const float* score, const std::int32_t* count,
                          const tensor_view& flags) const {
  queue_.launch(
      "mark_top", {blocks_for(some.sequences, 1), group_threads, group_bytes}, mark_top_kernel,
      {some.row_begin, some.position, score, count, flags.as<std::uint8_t>(), flags.row_stride});
}

}  // namespace unmask::cuda::UNMASK_TARGET
