// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <stdexcept>
#include <utility>

#include "kernels/cuda/device_ops.h"
#include "kernels/cuda/gather_kernels.h"

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

}  // namespace

void device_ops::gather_rows(const tensor_view& from, const std::int32_t* index,
                             const tensor_view& to) const {
  copy_rows(queue_, "gather_rows", from, index, to, nullptr, to.rows());
}

void device_ops::scatter_rows(const tensor_view& from, const std::int32_t* index,
                              const tensor_view& to) const {
  copy_rows(queue_, "scatter_rows", from, nullptr, to, index, from.rows());
}

std::int32_t* device_ops::fault_word(device_fault kind) const {
  constexpr auto count = static_cast<std::size_t>(device_fault::count);
  if (faults_ == nullptr) {
    faults_ = queue_.allocate(count * sizeof(std::int32_t), exchanged_memory());
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

std::int32_t device_ops::compact(std::int32_t sequences, const tensor_view& flags,
                                 std::uint8_t want, const std::int32_t* first,
                                 const std::int32_t* last, std::int32_t* begin,
                                 std::int32_t* position, std::int32_t* sequence) const {
  list_params list{};
  list.sequences = sequences;
  list.flags = flags.data != nullptr ? flags.as<std::uint8_t>() : nullptr;
  list.stride = flags.row_stride;
  list.want = want;
  list.first = first;
  list.last = last;
  list.begin = begin;
  list.position = position;
  list.sequence = sequence;
  return write_list(queue_, "compact", list);
}

std::int32_t device_ops::find_candidates(const row_set& rows, const tensor_view& state,
                                         std::uint8_t want, const std::int32_t* first,
                                         const std::int32_t* last, std::int32_t shift,
                                         std::int32_t* begin, std::int32_t* position,
                                         std::int32_t* row) const {
  list_params list{};
  list.sequences = rows.sequences;
  list.flags = state.as<std::uint8_t>();
  list.stride = state.row_stride;
  list.want = want;
  list.first = first;
  list.last = last;
  list.rows = rows;
  list.shift = shift;
  list.begin = begin;
  list.position = position;
  list.row = row;
  return write_list(queue_, "find_candidates", list);
}

void device_ops::find_rows(const row_set& rows, const row_set& some, std::int32_t* index) const {
  queue_.launch("find_rows", {blocks_for(some.rows, group_threads), group_threads},
                find_rows_kernel, {rows, some, index, fault_word(device_fault::find_rows)});
  faults_may_be_known();
}

void device_ops::gather_tokens(const row_set& rows, const tensor_view& canvas,
                               std::int32_t* token) const {
  queue_.launch("gather_tokens", {blocks_for(rows.rows, group_threads), group_threads},
                gather_tokens_kernel, {rows, canvas.as<std::int32_t>(), canvas.row_stride, token});
}

void device_ops::mean_rows(const row_set& rows, const tensor_view& x,
                           const tensor_view& out) const {
  const grid_shape shape{blocks_for(rows.sequences, 1), group_threads, 0,
                         blocks_for(x.columns(), group_threads)};
  queue_.launch(
      "mean_rows", shape, mean_rows_kernel,
      {rows.row_begin, x.as<float>(), x.row_stride, x.columns(), out.as<float>(), out.row_stride});
}

void device_ops::row_distance(const tensor_view& a, const tensor_view& b, float* out) const {
  queue_.launch("row_distance", {blocks_for(a.rows(), 1), group_threads, group_bytes},
                row_distance_kernel,
                {a.as<float>(), a.row_stride, b.as<float>(), b.row_stride, a.columns(), out});
}

}  // namespace unmask::cuda::UNMASK_TARGET
