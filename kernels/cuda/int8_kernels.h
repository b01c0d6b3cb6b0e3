// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// int8 operands (kernels/int8.h). Rows of levels lie end to end, each padded with zeros to a
// multiple of 16 bytes: zeros change no sum, and tensor cores, cp.async and the library take whole
// pieces. A packed matrix has zero rows, too, up to a multiple of 16, then one scale per output
// feature. Sums are int32 and exact, whoever computes them, so every path gives the same bits.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/groups.h"
#include "kernels/int8.h"

namespace unmask::cuda::UNMASK_TARGET {

UNMASK_HOST_DEVICE constexpr std::int64_t int8_padded(std::int64_t n) {
  return (n + 15) / 16 * 16;
}
// More products of two levels do not fit a sum.
constexpr std::int64_t int8_most_depth = 0x7FFFFFFF / (127 * 127);

// The scales behind a packed matrix; pitch: bytes of one row.
UNMASK_HOST_DEVICE inline const float* int8_weight_scales(const void* matrix, std::int64_t columns,
                                                          std::int64_t pitch) {
  return reinterpret_cast<const float*>(static_cast<const std::int8_t*>(matrix) +
                                        int8_padded(columns) * pitch);
}

struct int8_scales {
  const float* x = nullptr;  // [rows]
  const float* w = nullptr;  // [columns]
};

// Every step rounded as the reference rounds it.
UNMASK_DEVICE double int8_product(std::int32_t sum, float x_scale, float w_scale) {
  return product(product(static_cast<double>(sum), static_cast<double>(x_scale)),
                 static_cast<double>(w_scale));
}

struct quantize_rows_params {
  const void* x;
  dtype type;
  std::int64_t x_stride;
  const std::int32_t* index;  // [rows] or null
  int width;
  int pitch;           // int8_padded(width)
  std::int32_t* word;  // [rows, pitch / 4] four levels each
  float* scale;        // [rows]
};

// One block per row: its largest magnitude, then its levels.
UNMASK_KERNEL void UNMASK_THREADS(group_threads) quantize_rows_kernel(quantize_rows_params p) {
  shared_allocator shared;
  const block_group group = take_group(shared);
  const std::int64_t i = block_index();
  const std::int64_t from = (p.index != nullptr ? p.index[i] : i) * p.x_stride;
  // The bits of magnitudes are ordered as these are, and then come infinity and NaN.
  std::uint32_t largest = 0;
  for (int k = group.rank(); k < p.width; k += group.size()) {
    const std::uint32_t size = bits_of(load_float(p.x, p.type, from + k)) & 0x7FFFFFFFU;
    largest = size > largest ? size : largest;
  }
  const float scale = int8_scale(float_bits(group_max(group, largest)));
  for (int word = group.rank(); word < p.pitch / 4; word += group.size()) {
    std::uint32_t levels = 0;
    for (int j = 0; j < 4; ++j) {
      const int k = 4 * word + j;
      if (k >= p.width) break;
      const std::int8_t level = int8_level(load_float(p.x, p.type, from + k), scale);
      levels |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(level)) << (8 * j);
    }
    p.word[i * (p.pitch / 4) + word] = static_cast<std::int32_t>(levels);
  }
  if (group.rank() == 0) p.scale[i] = scale;
}

}  // namespace unmask::cuda::UNMASK_TARGET
