// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/backend.h"

#include <cstring>
#include <stdexcept>

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

}  // namespace unmask
