// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/block_run_kernels.h"
#include "kernels/cuda/device_ops.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

constexpr unsigned few_threads = 64;  // a thread for each sequence

grid_shape thread_each(std::int32_t sequences) {
  return {blocks_for(sequences, few_threads), few_threads};
}
grid_shape warp_each(std::int32_t sequences) {
  return {blocks_for(sequences, 1), warp_size};
}

}  // namespace

void device_ops::advance_blocks(const block_run& run, const std::int32_t* judged_begin,
                                std::int32_t* committed, const tensor_view& canvas,
                                const tensor_view& state) const {
  constexpr std::size_t shared = std::size_t{2} * run_threads / warp_size * sizeof(std::int32_t);
  queue_.launch("advance_blocks", {1, run_threads, shared}, advance_blocks_kernel,
                {run, judged_begin, committed, canvas.as<std::int32_t>(), canvas.row_stride,
                 state.as<std::uint8_t>(), state.row_stride});
}

void device_ops::pick_windows(std::int32_t sequences, const step_arrays& step, std::uint32_t kinds,
                              std::int32_t* to_first, std::int32_t* to_last) const {
  queue_.launch("pick_windows", thread_each(sequences), pick_windows_kernel,
                {sequences, step, kinds, to_first, to_last});
}

void device_ops::tally(const row_set& rows, const key_set& keys, std::int64_t* row_count,
                       std::int64_t* key_count) const {
  queue_.launch("tally", warp_each(rows.sequences), tally_kernel,
                {rows, keys, row_count, key_count});
}

void device_ops::focus_targets(const row_set& rows, const tensor_view& state,
                               const step_arrays& step, const focus_rules& rules,
                               focus_record* record, const focus_targets_out& out) const {
  queue_.launch("focus_targets", warp_each(rows.sequences), focus_targets_kernel,
                {rows, state.as<std::uint8_t>(), state.row_stride, step, rules, record, out});
}

void device_ops::focus_processed(std::int32_t sequences, const step_arrays& step,
                                 const std::int32_t* end, focus_record* record) const {
  queue_.launch("focus_processed", thread_each(sequences), focus_record_kernel,
                {sequences, step, {}, end, nullptr, record});
}

void device_ops::focus_decided(std::int32_t sequences, const step_arrays& step,
                               const focus_rules& rules, const std::int32_t* committed,
                               focus_record* record) const {
  queue_.launch("focus_decided", thread_each(sequences), focus_record_kernel,
                {sequences, step, rules, nullptr, committed, record});
}

}  // namespace unmask::cuda::UNMASK_TARGET
