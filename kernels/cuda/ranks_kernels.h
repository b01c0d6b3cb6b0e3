// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What is added over ranks, in one order on every device (kernels/ranks.h). Bound by memory.
#pragma once

#include "kernels/cuda/cache_access.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int sum_columns = 4 * row_threads;  // of a row, by one block

// The sum of number(0), ..., number(count - 1): while more than one is left, numbers 2i and 2i + 1 become
// their sum and an odd last one stays. level[l] is the sum of 2^l of them that waits for its neighbour; at
// most 127 numbers, and all levels in registers.
template <class F>
UNMASK_DEVICE float sum_in_pairs(int count, const F& number) {
  constexpr int levels = 7;
  float level[levels] = {};
  for (int i = 0; i < count; ++i) {
    float x = number(i);
    bool carried = true;
#pragma unroll
    for (int l = 0; l < levels; ++l) {
      const bool waits = (i >> l & 1) != 0;
      if (carried && waits) x = level[l] + x;
      if (carried && !waits) level[l] = x;
      carried = carried && waits;
    }
  }
  float sum = 0;
  bool any = false;
#pragma unroll
  for (int l = 0; l < levels; ++l) {
    if ((count >> l & 1) == 0) continue;
    sum = any ? level[l] + sum : level[l];
    any = true;
  }
  return sum;
}

// An element of a part, which is float32 or came as bfloat16.
UNMASK_DEVICE float part_element(float x) {
  return x;
}
UNMASK_DEVICE float part_element(std::uint16_t half) {
  return bf16_to_float(half);
}

struct sum_parts_params {
  const void* parts;  // [count, size]
  float* y;           // [rows, width], rows width = size
  std::int64_t size, y_stride;
  int count, width;
  bool accumulate;
};

// Blocks: rows, and stretches of their columns.
template <class number>
UNMASK_KERNEL void sum_parts_kernel(sum_parts_params p) {
  const auto* parts = static_cast<const number*>(p.parts) + std::int64_t{block_index()} * p.width;
  float* y = p.y + std::int64_t{block_index()} * p.y_stride;
  const int first = static_cast<int>(block_index_y()) * sum_columns;
  const int end = first + sum_columns < p.width ? first + sum_columns : p.width;
  for (int d = first + static_cast<int>(thread_index()); d < end; d += row_threads) {
    const float sum =
        sum_in_pairs(p.count, [&](int i) { return part_element(parts[d + i * p.size]); });
    y[d] = p.accumulate ? y[d] + sum : sum;
  }
}

struct send_heads_params {
  float* data;  // [count]
  float* to;    // [count + 1], the last becomes `heads`
  std::int64_t count;
  float heads;
  bool clears;  // data becomes 0
};

UNMASK_KERNEL void send_heads_kernel(send_heads_params p) {
  const std::int64_t i = std::int64_t{block_index()} * row_threads + thread_index();
  if (i > p.count) return;
  p.to[i] = i < p.count ? p.data[i] : p.heads;
  if (p.clears && i < p.count) p.data[i] = 0;
}

struct add_heads_params {
  const float* all;     // [ranks, count + 1] of send_heads_kernel
  const float* before;  // [count] that the sum is added to, or null
  float* data;          // [count]
  std::int64_t count;
  int ranks;
};

// data = (before +) the sum of all ranks, or their mean by heads where they have any, in rank order.
UNMASK_KERNEL void add_heads_kernel(add_heads_params p) {
  const std::int64_t i = std::int64_t{block_index()} * row_threads + thread_index();
  if (i >= p.count) return;
  double sum = 0, heads = 0;
  for (int r = 0; r < p.ranks; ++r) {
    const float* of = p.all + r * (p.count + 1);
    const double n = of[p.count];
    const double x = n > 0 ? of[i] * n : double{of[i]};  // exact: a float by a small number
    sum = r == 0 ? x : sum + x;
    heads += n;
  }
  if (heads > 0) sum = sum / heads;
  p.data[i] = static_cast<float>(p.before != nullptr ? p.before[i] + sum : sum);
}

}  // namespace unmask::cuda::UNMASK_TARGET
