// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// How kernels find and read a slot of the paged KV cache, and floats of any stored type.
#pragma once

#include <stdexcept>
#include <string>

#include "kernels/backend.h"
#include "kernels/cuda/device/portable.h"

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

// Elements i and i + 1, i even, float32 or bfloat16, in one access.
struct alignas(8) float_pair {
  float a, b;
};
UNMASK_DEVICE float_pair load_pair(const void* data, dtype type, std::int64_t i) {
  if (type == dtype::f32) {
    return word_at<float_pair>(static_cast<const float*>(data) + i);
  }
  const auto both = word_at<std::uint32_t>(static_cast<const std::uint16_t*>(data) + i);
  return {float_bits(both << 16), float_bits(both & 0xFFFF0000U)};
}
UNMASK_DEVICE void store_pair(void* data, dtype type, std::int64_t i, float a, float b) {
  if (type == dtype::bf16) {
    word_at<std::uint32_t>(static_cast<std::uint16_t*>(data) + i) = pack_bf16(a, b);
  } else {
    word_at<float_pair>(static_cast<float*>(data) + i) = {a, b};
  }
}
// silu(g) u of two bfloat16 elements, silu to a few units in the last place of float32, far below
// the rounding to bfloat16.
UNMASK_DEVICE float silu_fast(float g) {
  return divide_fast(g, 1.0F + exp2_fast(-1.4426950408889634F * g));
}
UNMASK_DEVICE std::uint32_t gated_pair(std::uint32_t gate, std::uint32_t up) {
  return pack_bf16(silu_fast(float_bits(gate << 16)) * float_bits(up << 16),
                   silu_fast(float_bits(gate & 0xFFFF0000U)) * float_bits(up & 0xFFFF0000U));
}
// Eight bfloat16 elements in one access.
struct alignas(16) bf16_piece {
  std::uint32_t pair[4];
};
// Elements i .. i + 3, i a multiple of 4, in one access of 16 or 8 bytes.
struct alignas(16) float_quad {
  float x[4];
};
struct alignas(8) half_quad {
  std::uint32_t pair[2];
};
UNMASK_DEVICE float_quad load_quad(const void* data, dtype type, std::int64_t i) {
  if (type == dtype::f32) {
    return word_at<float_quad>(static_cast<const float*>(data) + i);
  }
  const half_quad h = word_at<half_quad>(static_cast<const std::uint16_t*>(data) + i);
  return {{float_bits(h.pair[0] << 16), float_bits(h.pair[0] & 0xFFFF0000U),
           float_bits(h.pair[1] << 16), float_bits(h.pair[1] & 0xFFFF0000U)}};
}
UNMASK_DEVICE void store_quad(void* data, dtype type, std::int64_t i, const float_quad& q) {
  if (type == dtype::bf16) {
    word_at<half_quad>(static_cast<std::uint16_t*>(data) +
                       i) = {{pack_bf16(q.x[0], q.x[1]), pack_bf16(q.x[2], q.x[3])}};
  } else {
    word_at<float_quad>(static_cast<float*>(data) + i) = q;
  }
}
// Whether rows can be taken `n` elements at a time: widths, strides and addresses of whole groups.
// They are float32 or bfloat16.
inline bool in_groups(std::int64_t n, const tensor_view& rows, std::int64_t width) {
  const auto bytes = static_cast<std::uintptr_t>(n) * size_of(rows.type);
  return (rows.type == dtype::f32 || rows.type == dtype::bf16) && width % n == 0 &&
         (rows.rank == 1 || rows.row_stride % n == 0) &&
         reinterpret_cast<std::uintptr_t>(rows.data) % bytes == 0;
}

// The instance of a kernel for float32 or for bfloat16 rows.
template <class K>
K instance_for(const tensor_view& rows, K f32, K bf16) {
  if (rows.type == dtype::f32) return f32;
  if (rows.type == dtype::bf16) return bf16;
  throw std::logic_error(std::string("rows of ") + name_of(rows.type) +
                         " where f32 or bf16 can be");
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
  // A table has fewer than 2^31 entries: pages are numbered in 32 bits.
  const std::int64_t page = place.page_table[sequence * place.table_stride + slot / kv_page_size];
  return page * side.page_stride + static_cast<std::int64_t>(slot % kv_page_size) * side.width;
}

}  // namespace unmask::cuda::UNMASK_TARGET
