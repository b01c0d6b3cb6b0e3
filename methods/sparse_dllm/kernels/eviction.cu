// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <stdexcept>

#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/groups.h"
#include "kernels/cuda/model_core_kernels.h"
#include "methods/sparse_dllm/kernels/eviction.h"

namespace unmask::cuda::UNMASK_TARGET {

struct pool_params {
  const std::int32_t* begin;
  const float* in;
  std::int32_t half;  // kernel / 2
  bool maximum;
  float* out;
};

// Grid: segments x pieces of a segment.
UNMASK_KERNEL void pool_kernel(pool_params p) {
  const int s = static_cast<int>(block_index());
  const int first = p.begin[s], last = p.begin[s + 1];
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int j = first + static_cast<int>(block_index_y() * block_size() + thread_index()); j < last;
       j += step) {
    const int low = j - p.half > first ? j - p.half : first;
    const int high = j + p.half < last - 1 ? j + p.half : last - 1;
    double sum = 0;
    float largest = float_bits(0xFF800000U);
    for (int i = low; i <= high; ++i) {
      const float x = p.in[i];
      sum += static_cast<double>(x);
      if (x > largest) largest = x;
    }
    p.out[j] = p.maximum ? largest : static_cast<float>(sum / (high - low + 1));
  }
}

struct kv_copy_params {
  const std::int32_t* begin;      // [S+1]
  const std::int32_t* from_slot;  // [begin[S]]
  cache_place from_place, to_place;
  cache_side from[2], to[2];
};

// Blocks: sequences x pieces; a piece copies every grid_size_y-th entry.
UNMASK_KERNEL void kv_copy_kernel(kv_copy_params p) {
  const auto s = static_cast<std::int32_t>(block_index());
  for (std::int32_t i = p.begin[s] + static_cast<std::int32_t>(block_index_y()); i < p.begin[s + 1];
       i += static_cast<std::int32_t>(grid_size_y())) {
#pragma unroll
    for (int which = 0; which < 2; ++which) {
      const cache_side& from = p.from[which];
      const cache_side& to = p.to[which];
      const std::int64_t source = slot_offset(from, p.from_place, s, p.from_slot[i]);
      const std::int64_t target = slot_offset(to, p.to_place, s, i - p.begin[s]);
      for (int d = static_cast<int>(thread_index()); d < from.width; d += row_threads) {
        store_float(to.data, to.type, target + d, load_float(from.data, from.type, source + d));
      }
    }
  }
}

// Grid: sequences x pieces.
UNMASK_KERNEL void list_kept_kernel(op::list_kept p) {
  const int s = static_cast<int>(block_index());
  const int top = p.top_begin[s + 1] - p.top_begin[s];
  const int n = p.kept_begin[s + 1] - p.kept_begin[s];
  const int step = static_cast<int>(grid_size_y() * block_size());
  for (int i = static_cast<int>(block_index_y() * block_size() + thread_index()); i < n;
       i += step) {
    p.kept[p.kept_begin[s] + i] =
        i < top ? p.slots[p.begin[s] + p.top[p.top_begin[s] + i]] : p.suffix[s] + i - top;
  }
}

namespace {

// Blocks that share one segment. The lengths are known on the device only; a block whose piece is
// beyond the end returns at once.
constexpr unsigned segment_pieces = 64;

void pool(const device_backend& device, const op::pool& args) {
  if (args.kernel < 1 || args.kernel % 2 == 0)
    throw std::logic_error("pool: the window must be odd");
  device.work().launch("pool", {blocks_for(args.segments, 1), group_threads, 0, segment_pieces},
                       pool_kernel,
                       {device.in(args.begin), device.in(args.in), args.kernel / 2, args.maximum,
                        device.out(args.out)});
}

void list_kept(const device_backend& device, const op::list_kept& args) {
  device.work().launch("list_kept",
                       {blocks_for(args.sequences, 1), group_threads, 0, segment_pieces},
                       list_kept_kernel,
                       {args.sequences, device.in(args.begin), device.in(args.slots),
                        device.in(args.top_begin), device.in(args.top), device.in(args.suffix),
                        device.in(args.kept_begin), device.out(args.kept)});
}

void kv_copy(const device_backend& device, const op::kv_copy& args) {
  const paged_kv source = device.in(args.from), target = device.out(args.to);
  const kv_copy_params p{device.in(args.begin),
                         device.in(args.from_slot),
                         {source.page_table, source.table_stride},
                         {target.page_table, target.table_stride},
                         {side_of(source.keys), side_of(source.values)},
                         {side_of(target.keys), side_of(target.values)}};
  constexpr unsigned pieces = 64;
  device.work().launch("kv_copy", {blocks_for(args.sequences, 1), row_threads, 0, pieces},
                       kv_copy_kernel, p);
}

}  // namespace

const register_operations<pool, list_kept, kv_copy> registered(this_target);

}  // namespace unmask::cuda::UNMASK_TARGET
