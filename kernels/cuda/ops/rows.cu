// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <stdexcept>
#include <utility>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/gather_kernels.h"
#include "kernels/head.h"
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

void gather_rows(const device_backend& device, const op::gather_rows& args) {
  copy_rows(device.work(), "gather_rows", device.in(args.from), device.in(args.index),
            device.out(args.to), nullptr, args.to.rows());
}

void scatter_rows(const device_backend& device, const op::scatter_rows& args) {
  copy_rows(device.work(), "scatter_rows", device.in(args.from), nullptr, device.out(args.to),
            device.in(args.index), args.from.rows());
}

}  // namespace

std::int32_t* device_backend::fault_word(device_fault kind) const {
  if (!shared_.faults) {
    shared_.faults = allocate(dtype::i32, {static_cast<std::int64_t>(device_fault::count)},
                              memory_use::host_visible);
  }
  return out(shared_.faults.as<std::int32_t>() + static_cast<std::size_t>(kind));
}

void device_backend::check_faults() const {
  if (!shared_.faults) return;
  const auto raised = [&](device_fault kind) {
    return std::exchange(shared_.faults.as<std::int32_t>()[static_cast<std::size_t>(kind)], 0);
  };
  if (raised(device_fault::find_rows) != 0) {
    throw std::logic_error("find_rows: a row is not there");
  }
  if (raised(device_fault::top_indices) != 0) {
    throw std::logic_error("top_indices: segment too short");
  }
  if (const std::int32_t other = raised(device_fault::rows_of_ranks); other != 0) {
    note_unequal_rows(other);
  }
}

namespace {

std::int32_t compact(const device_backend& device, const op::compact& args) {
  return device.on_host(args, args.flags.data, args.first, args.last, args.begin, args.position,
                        args.sequence);
}

std::int32_t find_candidates(const device_backend& device, const op::find_candidates& args) {
  return device.on_host(args, args.rows.row_begin, args.rows.position, args.state.data, args.first,
                        args.last, args.judges, args.begin, args.position, args.row);
}

// Counts, then writes, without atomics and without the host.
void list_flags(const device_backend& device, const op::list_flags& args) {
  queue& work = device.work();
  work.lists_change();
  if (args.sequences == 0) return work.fill_zero(device.out(args.begin), sizeof(std::int32_t));
  const list_flags_params p{device.in(args.flags).as<std::uint8_t>(),
                            args.flags.row_stride,
                            args.want,
                            device.in(args.first),
                            device.in(args.last),
                            work.scratch<std::int32_t>(scratch_slot::selection_a, args.sequences),
                            device.out(args.begin),
                            device.out(args.position),
                            device.out(args.sequence)};
  const grid_shape shape = block_each(args.sequences);
  work.launch("list_flags: count", shape, count_flags_kernel, p);
  work.launch("list_flags: write", shape, write_flags_kernel, p);
}

void gather_tokens(const device_backend& device, const op::gather_tokens& args) {
  device.work().launch("gather_tokens", {blocks_for(args.rows.rows, group_threads), group_threads},
                       gather_tokens_kernel,
                       {device.in(args.rows), device.in(args.canvas).as<std::int32_t>(),
                        args.canvas.row_stride, device.out(args.token), device.in(args.own)});
}

void list_ranges(const device_backend& device, const op::list_ranges& args) {
  queue& work = device.work();
  work.lists_change();
  if (args.views == 0) return;
  work.launch("list_ranges", {blocks_for(args.views, 1), group_threads}, list_ranges_kernel,
              {args.ranges, device.in(args.range), device.in(args.begin), device.out(args.slot)});
}

void mean_rows(const device_backend& device, const op::mean_rows& args) {
  const grid_shape shape{blocks_for(args.rows.sequences, 1), group_threads, 0,
                         blocks_for(args.x.columns(), group_threads)};
  device.work().launch(
      "mean_rows", shape,
      instance_for(args.x, mean_rows_kernel<dtype::f32>, mean_rows_kernel<dtype::bf16>),
      {device.in(args.rows.row_begin), device.in(args.x).data, args.x.row_stride, args.x.columns(),
       device.out(args.out).as<float>(), args.out.row_stride});
}

constexpr unsigned flag_pieces = 8;  // blocks that share the range of one sequence

// Flags that the host reads are written by the host; kernels write those that only kernels read.
void fill_flags(const device_backend& device, const op::fill_flags& args) {
  if (device.shares(args.flags.data)) {
    return device.on_host(args, args.first, args.last, args.flags.data);
  }
  device.work().launch("fill_flags", {blocks_for(args.sequences, 1), group_threads, 0, flag_pieces},
                       fill_flags_kernel,
                       {device.in(args.first), device.in(args.last), args.value,
                        args.flags.as<std::uint8_t>(), args.flags.row_stride});
}

void scatter_flags(const device_backend& device, const op::scatter_flags& args) {
  device.on_host(args, args.rows.sequence, args.rows.position, args.where, args.flags.data);
}

}  // namespace

const register_operations<gather_rows, scatter_rows, compact, list_flags, find_candidates,
                          gather_tokens, list_ranges, mean_rows, fill_flags, scatter_flags>
    registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
