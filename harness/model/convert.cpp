// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "harness/model/convert.h"

#include <cstring>

#include "kernels/float16.h"
#include "kernels/host_memory.h"

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

tensor to_f32(const tensor_view& from, const backend& backend, dtype rounded) {
  tensor t = from.rank == 1 ? backend.allocate(rounded, {from.shape[0]})
                            : backend.allocate(rounded, {from.shape[0], from.columns()});
  const tensor wide = allocate_host(dtype::f32, {from.elements()});
  widen(from, wide.as<float>());
  std::vector<std::uint16_t> half(rounded == dtype::bf16 ? t.bytes() / 2 : 0);
  for (std::size_t i = 0; i < half.size(); ++i) half[i] = to_bf16(wide.as<float>()[i]);
  backend.write(t.view().data, half.empty() ? wide.view().data : half.data(), t.bytes());
  return t;
}

tensor stack_rows(const std::vector<tensor_view>& parts) {
  std::int64_t rows = 0;
  bool alike = true;
  for (const tensor_view& p : parts) {
    rows += p.rows();
    alike = alike && p.type == parts.front().type;
  }
  const dtype type = alike ? parts.front().type : dtype::f32;
  tensor t = parts.front().rank == 1 ? allocate_host(type, {rows})
                                     : allocate_host(type, {rows, parts.front().columns()});
  auto* to = static_cast<std::byte*>(t.view().data);
  for (const tensor_view& p : parts) {
    if (!alike) {
      widen(p, reinterpret_cast<float*>(to));
    } else {
      const std::size_t element = size_of(type);
      const std::size_t row = static_cast<std::size_t>(p.columns()) * element;
      for (std::int64_t r = 0; r < p.rows(); ++r) {
        std::memcpy(to + static_cast<std::size_t>(r) * row,
                    static_cast<const std::byte*>(p.data) +
                        static_cast<std::size_t>(r * p.row_stride) * element,
                    row);
      }
    }
    to += static_cast<std::size_t>(p.elements()) * size_of(type);
  }
  return t;
}

}  // namespace unmask
