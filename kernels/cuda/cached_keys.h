// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The keys of a paged cache, as the scoring kernels read them.
#pragma once

#include <cstdint>

#include "kernels/cuda/cache_access.h"

namespace unmask::cuda::UNMASK_TARGET {

// One side of a paged cache, as kernels see it.
struct cached_keys {
  const void* data;
  dtype type;
  std::int64_t page_stride;        // elements
  std::int32_t width;              // kv_heads * dim
  const std::int32_t* page_table;  // [S, table_stride]
  std::int32_t table_stride;
};

// Element index of the key of a slot.
UNMASK_DEVICE std::int64_t key_at(const cached_keys& keys, int s, int slot) {
  const std::int64_t page =
      keys.page_table[static_cast<std::int64_t>(s) * keys.table_stride + slot / kv_page_size];
  return page * keys.page_stride + static_cast<std::int64_t>(slot % kv_page_size) * keys.width;
}

// Element i of the keys, as float64: scores are summed as the definition does.
UNMASK_DEVICE double key_value(const cached_keys& keys, std::int64_t i) {
  if (keys.type == dtype::f32) {
    return static_cast<double>(static_cast<const float*>(keys.data)[i]);
  }
  const std::uint16_t half = static_cast<const std::uint16_t*>(keys.data)[i];
  return static_cast<double>(keys.type == dtype::bf16 ? bf16_to_float(half) : f16_to_float(half));
}

struct alignas(16) four_floats {
  float x[4];
};
UNMASK_DEVICE bool is_aligned_16(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// sum + a b: the product is exact in float64, so that one rounding is what two would give.
UNMASK_DEVICE double add_product(double sum, float a, float b) {
  return fused_multiply_add(static_cast<double>(a), static_cast<double>(b), sum);
}

// sum_d a[d] b[d] in float64, one term after the other: the products are exact and the order is the
// definition's. A lane that has a row to itself reads it 16 bytes at a time where it can.
UNMASK_DEVICE double dot_product(const float* a, const float* b, int n) {
  double sum = 0;
  int d = 0;
  if (is_aligned_16(a) && is_aligned_16(b)) {
    for (; d + 4 <= n; d += 4) {
      const four_floats x = word_at<four_floats>(a + d);
      const four_floats y = word_at<four_floats>(b + d);
      for (int i = 0; i < 4; ++i) {
        sum = add_product(sum, x.x[i], y.x[i]);
      }
    }
  }
  for (; d < n; ++d) sum = add_product(sum, a[d], b[d]);
  return sum;
}
// Of bfloat16 rows.
UNMASK_DEVICE double dot_product(const std::uint16_t* a, const std::uint16_t* b, int n) {
  double sum = 0;
  int d = 0;
  if (is_aligned_16(a) && is_aligned_16(b)) {
    for (; d + 8 <= n; d += 8) {
      const bf16_piece x = word_at<bf16_piece>(a + d);
      const bf16_piece y = word_at<bf16_piece>(b + d);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum = add_product(sum, float_bits(x.pair[i] << 16), float_bits(y.pair[i] << 16));
        sum = add_product(sum, float_bits(x.pair[i] & 0xFFFF0000U),
                          float_bits(y.pair[i] & 0xFFFF0000U));
      }
    }
  }
  for (; d < n; ++d) sum = add_product(sum, bf16_to_float(a[d]), bf16_to_float(b[d]));
  return sum;
}

// Host side: the view of a cache.
inline cached_keys keys_of(const paged_kv& cache) {
  return {
      cache.keys.data,       cache.keys.type,
      cache.keys.row_stride, static_cast<std::int32_t>(cache.keys.shape[2] * cache.keys.shape[3]),
      cache.page_table,      cache.table_stride};
}

}  // namespace unmask::cuda::UNMASK_TARGET
