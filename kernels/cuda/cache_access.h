// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How kernels find and read a slot of the paged KV cache, and floats of any stored type.
#pragma once

#include "kernels/cuda/device/portable.h"
#include "kernels/ops.h"

namespace unmask::cuda::UNMASK_TARGET {

constexpr int row_threads = 128;

UNMASK_DEVICE float load_float(const void* data, dtype type, std::int64_t i) {
  if (type == dtype::f32) return static_cast<const float*>(data)[i];
  const std::uint16_t half = static_cast<const std::uint16_t*>(data)[i];
  return type == dtype::bf16 ? bf16_to_float(half) : f16_to_float(half);
}
UNMASK_DEVICE void store_float(void* data, dtype type, std::int64_t i, float value) {
  if (type == dtype::f32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<std::uint16_t*>(data)[i] = bf16_of(value);
  }
}

// One side (keys or values) of a layer's cache.
struct cache_side {
  void* data;  // [pages, kv_page_size, width]
  dtype type;
  std::int64_t page_stride;
  int width;  // kv_heads * dim
};

inline cache_side side_of(const tensor_view& side) {
  return {side.data, side.type, side.row_stride, static_cast<int>(side.shape[2] * side.shape[3])};
}

struct cache_place {
  const std::int32_t* page_table;  // [S, table_stride]
  std::int32_t table_stride;
};

// First element of a slot in a side of the cache.
UNMASK_DEVICE std::int64_t slot_offset(const cache_side& side, const cache_place& place,
                                       std::int32_t sequence, std::int32_t slot) {
  const std::int64_t page =
      place.page_table[static_cast<std::int64_t>(sequence) * place.table_stride +
                       slot / kv_page_size];
  return page * side.page_stride + static_cast<std::int64_t>(slot % kv_page_size) * side.width;
}

}  // namespace unmask::cuda::UNMASK_TARGET
