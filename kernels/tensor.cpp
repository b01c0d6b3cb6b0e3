// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/tensor.h"

namespace unmask {

std::size_t size_of(dtype type) {
  switch (type) {
    case dtype::f32:
    case dtype::i32:
      return 4;
    case dtype::bf16:
    case dtype::f16:
      return 2;
    case dtype::u8:
      return 1;
    case dtype::u64:
      return 8;
  }
  throw std::logic_error("size_of: unknown dtype");
}

const char* name_of(dtype type) {
  switch (type) {
    case dtype::f32:
      return "f32";
    case dtype::bf16:
      return "bf16";
    case dtype::f16:
      return "f16";
    case dtype::i32:
      return "i32";
    case dtype::u8:
      return "u8";
    case dtype::u64:
      return "u64";
  }
  throw std::logic_error("name_of: unknown dtype");
}

std::int64_t tensor_view::columns() const {
  std::int64_t n = 1;
  for (int d = 1; d < rank; ++d) n *= shape[static_cast<std::size_t>(d)];
  return n;
}

tensor_view tensor_view::slice(std::int64_t begin, std::int64_t n) const {
  if (begin < 0 || n < 0 || begin + n > rows()) throw std::logic_error("tensor_view: bad slice");
  tensor_view part = *this;
  part.data =
      static_cast<std::byte*>(data) + static_cast<std::size_t>(begin * row_stride) * size_of(type);
  part.shape[0] = n;
  return part;
}

tensor_view make_view(void* data, dtype type, std::initializer_list<std::int64_t> shape) {
  if (shape.size() == 0 || shape.size() > 4) throw std::logic_error("tensor_view: rank 1 to 4");
  tensor_view v;
  v.data = data;
  v.type = type;
  for (auto n : shape) v.shape[static_cast<std::size_t>(v.rank++)] = n;
  v.row_stride = v.columns();
  return v;
}

}  // namespace unmask
