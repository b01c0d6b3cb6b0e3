// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/convert.h"

#include <cstring>

#include "kernels/float16.h"

namespace unmask {
namespace {

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
      to[i] = from.type == dtype::bf16 ? from_bf16(h) : from_f16(h);
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
