// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/blocks_kernels.h"
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

constexpr unsigned flag_pieces = 8;  // blocks that share the range of one sequence

grid_shape elements(std::int64_t count) {
  return {blocks_for(count, group_threads), group_threads};
}
grid_shape block_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), group_threads, group_bytes};
}

}  // namespace

void device_ops::fill_flags(std::int32_t sequences, const std::int32_t* first,
                            const std::int32_t* last, std::uint8_t value,
                            const tensor_view& flags) const {
  queue_.launch("fill_flags", {blocks_for(sequences, 1), group_threads, 0, flag_pieces},
                fill_flags_kernel,
                {first, last, value, flags.as<std::uint8_t>(), flags.row_stride});
}

void device_ops::scatter_flags(const row_set& rows, const std::uint8_t* where, std::uint8_t value,
                               const tensor_view& flags) const {
  queue_.launch("scatter_flags", elements(rows.rows), scatter_flags_kernel,
                {rows, where, value, flags.as<std::uint8_t>(), flags.row_stride});
}

void device_ops::freeze(std::int32_t sequences, const tensor_view& state, const std::int32_t* first,
                        const std::int32_t* last, bool right_neighbour,
                        const tensor_view& flags) const {
  queue_.launch("freeze", {blocks_for(sequences, 1), group_threads, 0, flag_pieces},
                freeze_flags_kernel,
                {state.as<std::uint8_t>(), state.row_stride, first, last, right_neighbour,
                 flags.as<std::uint8_t>(), flags.row_stride});
}

void device_ops::combine_scores(std::int32_t count, const float* a, float wa, const float* b,
                                float wb, float* out) const {
  queue_.launch("combine_scores", elements(count), combine_scores_kernel,
                {count, a, wa, b, wb, out});
}

void device_ops::round_bf16(std::int32_t count, float* x) const {
  queue_.launch("round_bf16", elements(count), round_bf16_kernel, {count, x});
}

void device_ops::retain(const candidate_set& candidates, const float* score,
                        const retain_params& params, std::uint8_t* accept) const {
  queue_.launch("retain", block_each(candidates.sequences), retain_kernel,
                {candidates, score, params, accept});
}

std::int32_t device_ops::drop_rows(const row_set& rows, const candidate_set& candidates,
                                   const std::uint8_t* accept, std::int32_t* begin,
                                   std::int32_t* sequence, std::int32_t* position,
                                   std::int32_t* kept) const {
  if (rows.sequences == 0) {
    queue_.fill_zero(begin, sizeof(std::int32_t));
    return 0;
  }
  const drop_rows_params p{
      rows,
      candidates,
      accept,
      begin,
      sequence,
      position,
      kept,
      queue_.scratch<std::int32_t>(scratch_slot::selection_a, rows.sequences),
      queue_.scratch<std::int32_t>(scratch_slot::selection_b, std::int64_t{rows.sequences} + 1),
      queue_.scratch<std::int32_t>(scratch_slot::selection_c, rows.rows)};
  queue_.launch("drop_rows: mark", block_each(rows.sequences), mark_dropped_kernel, p);
  queue_.launch("drop_rows: write", block_each(rows.sequences), write_kept_kernel, p);
  return queue_.read(begin + rows.sequences);
}

std::int32_t device_ops::select_chunk(std::int32_t sequences, const tensor_view& state,
                                      const chunk_params& params, std::int32_t* begin,
                                      std::int32_t* sequence, std::int32_t* position,
                                      std::int32_t* slot, std::uint8_t* settles) const {
  if (sequences == 0) {
    queue_.fill_zero(begin, sizeof(std::int32_t));
    return 0;
  }
  const select_chunk_params p{sequences,
                              state.as<std::uint8_t>(),
                              state.row_stride,
                              params,
                              queue_.scratch<std::int32_t>(scratch_slot::selection_a, sequences),
                              begin,
                              sequence,
                              position,
                              slot,
                              settles};
  queue_.launch("select_chunk: count", block_each(sequences), count_chunk_kernel, p);
  queue_.launch("select_chunk: write", block_each(sequences), write_chunk_kernel, p);
  return queue_.read(begin + sequences);
}

}  // namespace unmask::cuda::UNMASK_TARGET
