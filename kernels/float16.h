// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// bfloat16 and IEEE half on the host, bit by bit: no compiler flag, no library.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/tensor.h"

namespace unmask {

inline float from_bf16(std::uint16_t h) {
  return std::bit_cast<float>(std::uint32_t{h} << 16);
}

// Nearest even; NaN stays NaN.
inline std::uint16_t to_bf16(float f) {
  const std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((u >> 16) | 0x40U);
  return static_cast<std::uint16_t>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
}

inline float from_f16(std::uint16_t h) {
  const std::uint32_t sign = std::uint32_t{h & 0x8000U} << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1FU;
  const std::uint32_t fraction = h & 0x3FFU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;  // zero or subnormal
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

// Element (r, c) of a float tensor of any type.
inline float float_at(const tensor_view& t, std::int64_t r, std::int64_t c) {
  const std::int64_t i = r * t.row_stride + c;
  switch (t.type) {
    case dtype::f32:
      return static_cast<const float*>(t.data)[i];
    case dtype::bf16:
      return from_bf16(static_cast<const std::uint16_t*>(t.data)[i]);
    case dtype::f16:
      return from_f16(static_cast<const std::uint16_t*>(t.data)[i]);
    default:
      throw std::logic_error("float_at: not a float tensor");
  }
}

}  // namespace unmask
