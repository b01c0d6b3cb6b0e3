// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/convert.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace unmask {
namespace {

float widen_f16(std::uint16_t h) {
  const int exponent = (h >> 10) & 0x1F;
  const int fraction = h & 0x3FF;
  float value = 0;
  if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), -24);
  } else if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else {
    value = std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  }
  return (h & 0x8000) != 0 ? -value : value;
}

void widen(const tensor_view& from, float* to) {
  const std::int64_t columns = from.columns();
  for (std::int64_t r = 0; r < from.rows(); ++r, to += columns) {
    const std::int64_t at = r * from.row_stride;
    if (from.type == dtype::f32) {
      // Mapped files are only aligned to what their header allows: copy, never dereference.
      std::memcpy(to, static_cast<const std::byte*>(from.data) + at * 4,
                  static_cast<std::size_t>(columns) * 4);
      continue;
    }
    const std::byte* p = static_cast<const std::byte*>(from.data) + at * 2;
    for (std::int64_t i = 0; i < columns; ++i) {
      std::uint16_t h;
      std::memcpy(&h, p + 2 * i, 2);
      to[i] = from.type == dtype::bf16 ? std::bit_cast<float>(std::uint32_t{h} << 16)
                                       : widen_f16(h);
    }
  }
}

}  // namespace

tensor to_f32(const tensor_view& from, const ops& backend) {
  tensor t = from.rank == 1 ? backend.allocate(dtype::f32, {from.shape[0]})
                            : backend.allocate(dtype::f32, {from.shape[0], from.columns()});
  widen(from, t.as<float>());
  return t;
}

tensor stack_rows(const std::vector<tensor_view>& parts, const ops& backend) {
  std::int64_t rows = 0;
  for (const tensor_view& p : parts) rows += p.rows();
  tensor t = parts.front().rank == 1
                 ? backend.allocate(dtype::f32, {rows})
                 : backend.allocate(dtype::f32, {rows, parts.front().columns()});
  float* to = t.as<float>();
  for (const tensor_view& p : parts) {
    widen(p, to);
    to += p.elements();
  }
  return t;
}

}  // namespace unmask
