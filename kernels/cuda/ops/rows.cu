// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <stdexcept>
#include <utility>

#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/gather_kernels.h"
#include "kernels/rows.h"

namespace unmask::cuda::UNMASK_TARGET {

namespace {

// Copies `rows` rows; from_index or to_index null: row i. The word is the largest of 16, 4 and 1
// bytes that divides both addresses, both strides and the width.
void copy_rows(queue& work, const char* name, const tensor_view& from,
               const std::int32_t* from_index, const tensor_view& to, const std::int32_t* to_index,
               std::int64_t rows) {
  if (from.type != to.type || from.columns() != to.columns()) {
    throw std::logic_error("rows: type or width differs");
  }
  const auto element = static_cast<std::int64_t>(size_of(from.type));
  const std::int64_t from_stride = from.row_stride * element, to_stride = to.row_stride * element;
  const std::int64_t width = from.columns() * element;
  const auto all = static_cast<std::uintptr_t>(from_stride | to_stride | width) |
                   reinterpret_cast<std::uintptr_t>(from.data) |
                   reinterpret_cast<std::uintptr_t>(to.data);
  const auto launch = [&](auto kernel, std::int64_t word) {
    const std::int64_t words = width / word;
    // About four words for each thread.
    const grid_shape shape{blocks_for(rows, 1), group_threads, 0,
                           blocks_for(words, 4 * group_threads)};
    work.launch(
        name, shape, kernel,
        {from.data, from_stride / word, from_index, to.data, to_stride / word, to_index, words});
  };
  if (all % 16 == 0) {
    launch(copy_rows_kernel<sixteen_bytes>, 16);
  } else if (all % 4 == 0) {
    launch(copy_rows_kernel<std::uint32_t>, 4);
  } else {
    launch(copy_rows_kernel<std::uint8_t>, 1);
  }
}

// Counts, writes, and waits for the total.
std::int32_t write_list(queue& work, const char* name, list_params list) {
  if (list.sequences == 0) {
    work.fill_zero(list.begin, sizeof(std::int32_t));
    return 0;
  }
  list.count = work.scratch<std::int32_t>(scratch_slot::selection_a, list.sequences);
  const grid_shape shape{blocks_for(list.sequences, 1), group_threads, group_bytes};
  work.launch(name, shape, count_list_kernel, list);
  work.launch(name, shape, write_list_kernel, list);
  return work.read(list.begin + list.sequences);
}

void gather_rows(const device_ops& device, const op::gather_rows& args) {
  copy_rows(device.work(), "gather_rows", args.from, args.index, args.to, nullptr, args.to.rows());
}

void scatter_rows(const device_ops& device, const op::scatter_rows& args) {
  copy_rows(device.work(), "scatter_rows", args.from, nullptr, args.to, args.index,
            args.from.rows());
}

}  // namespace

std::int32_t* device_ops::fault_word(device_fault kind) const {
  constexpr auto count = static_cast<std::size_t>(device_fault::count);
  if (faults_ == nullptr) {
    faults_ = queue_.allocate(count * sizeof(std::int32_t), host_visible_memory());
  }
  return static_cast<std::int32_t*>(faults_.get()) + static_cast<std::size_t>(kind);
}

void device_ops::check_faults() const {
  if (faults_ == nullptr) return;
  const auto raised = [&](device_fault kind) { return std::exchange(*fault_word(kind), 0) != 0; };
  if (raised(device_fault::find_rows)) throw std::logic_error("find_rows: a row is not there");
  if (raised(device_fault::top_indices)) {
    throw std::logic_error("top_indices: segment too short");
  }
}

void device_ops::faults_may_be_known() const {
#if !defined(__CUDACC__)
  if (!current_emulation().deferred) check_faults();
#endif
}

namespace {

std::int32_t compact(const device_ops& device, const op::compact& args) {
  list_params list{};
  list.sequences = args.sequences;
  list.flags = args.flags.data != nullptr ? args.flags.as<std::uint8_t>() : nullptr;
  list.stride = args.flags.row_stride;
  list.want = args.want;
  list.first = args.first;
  list.last = args.last;
  list.begin = args.begin;
  list.position = args.position;
  list.sequence = args.sequence;
  return write_list(device.work(), "compact", list);
}

std::int32_t find_candidates(const device_ops& device, const op::find_candidates& args) {
  list_params list{};
  list.sequences = args.rows.sequences;
  list.flags = args.state.as<std::uint8_t>();
  list.stride = args.state.row_stride;
  list.want = args.want;
  list.first = args.first;
  list.last = args.last;
  list.rows = args.rows;
  list.shift = args.shift;
  list.begin = args.begin;
  list.position = args.position;
  list.row = args.row;
  return write_list(device.work(), "find_candidates", list);
}

void gather_tokens(const device_ops& device, const op::gather_tokens& args) {
  device.work().launch(
      "gather_tokens", {blocks_for(args.rows.rows, group_threads), group_threads},
      gather_tokens_kernel,
      {args.rows, args.canvas.as<std::int32_t>(), args.canvas.row_stride, args.token});
}

void mean_rows(const device_ops& device, const op::mean_rows& args) {
  const grid_shape shape{blocks_for(args.rows.sequences, 1), group_threads, 0,
                         blocks_for(args.x.columns(), group_threads)};
  device.work().launch("mean_rows", shape, mean_rows_kernel,
                       {args.rows.row_begin, args.x.as<float>(), args.x.row_stride,
                        args.x.columns(), args.out.as<float>(), args.out.row_stride});
}

constexpr unsigned flag_pieces = 8;  // blocks that share the range of one sequence

void fill_flags(const device_ops& device, const op::fill_flags& args) {
  device.work().launch(
      "fill_flags", {blocks_for(args.sequences, 1), group_threads, 0, flag_pieces},
      fill_flags_kernel,
      {args.first, args.last, args.value, args.flags.as<std::uint8_t>(), args.flags.row_stride});
}

void scatter_flags(const device_ops& device, const op::scatter_flags& args) {
  device.work().launch(
      "scatter_flags", {blocks_for(args.rows.rows, group_threads), group_threads},
      scatter_flags_kernel,
      {args.rows, args.where, args.value, args.flags.as<std::uint8_t>(), args.flags.row_stride});
}

}  // namespace

const register_operations<gather_rows, scatter_rows, compact, find_candidates, gather_tokens,
                          mean_rows, fill_flags, scatter_flags>
    registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
