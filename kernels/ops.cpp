// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/ops.h"

#include <cstring>
#include <stdexcept>

namespace unmask {

void ops::write(void* to, const void* from, std::size_t bytes) const {
  std::memcpy(to, from, bytes);
}
void ops::read(void* to, const void* from, std::size_t bytes) const {
  synchronize();
  std::memcpy(to, from, bytes);
}
void ops::clear(void* to, std::size_t bytes) const {
  std::memset(to, 0, bytes);
}

std::unique_ptr<captured_graph> ops::capture(const std::function<void()>&) const {
  throw std::logic_error(name() + " captures nothing");
}
void ops::replay(const captured_graph&) const {
  throw std::logic_error(name() + " captures nothing");
}

}  // namespace unmask
