// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/backend.h"

#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/float16.h"
#include "kernels/moe.h"

namespace unmask {

void backend::write(void* to, const void* from, std::size_t bytes) const {
  std::memcpy(to, from, bytes);
}
void backend::read(void* to, const void* from, std::size_t bytes) const {
  synchronize();
  std::memcpy(to, from, bytes);
}
void backend::clear(void* to, std::size_t bytes) const {
  std::memset(to, 0, bytes);
}

std::unique_ptr<captured_graph> backend::capture(const std::function<void()>&) const {
  throw std::logic_error(name() + " captures nothing");
}
void backend::replay(const captured_graph&) const {
  throw std::logic_error(name() + " captures nothing");
}

packed_handle pack_router(const backend& backend, const tensor_view& weight, weight_format format) {
  const std::int64_t rows = weight.rows(), width = weight.columns();
  if (backend.activation_type(format) != dtype::bf16 || width % 8 != 0) return nullptr;
  std::vector<std::uint16_t> parts(static_cast<std::size_t>(2 * rows * width));
  auto high = parts.begin(), low = high + rows * width;
  for (std::int64_t e = 0; e < rows; ++e) {
    for (std::int64_t d = 0; d < width; ++d) {
      const float w = float_at(weight, e, d);
      *high = to_bf16(w);
      *low++ = to_bf16(w - from_bf16(*high++));
    }
  }
  return backend.pack(make_view(parts.data(), dtype::bf16, {2 * rows, width}), weight_format::bf16);
}

}  // namespace unmask
