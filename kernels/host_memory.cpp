// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/host_memory.h"

#include <cstdlib>
#include <cstring>
#include <string>

namespace unmask {

tensor allocate_host(dtype type, std::initializer_list<std::int64_t> shape) {
  constexpr std::size_t alignment = 64;
  std::size_t bytes = size_of(type);
  for (const std::int64_t n : shape) {
    if (n < 0) throw std::logic_error("allocate: negative dimension");
    bytes *= static_cast<std::size_t>(n);
  }
  const std::size_t padded = (bytes + 2 * alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, padded);
  if (memory == nullptr) {
    throw environment_error("out of memory: cannot allocate " + std::to_string(padded >> 20) +
                            " MiB for a tensor; use a smaller model, batch or cache");
  }
  std::memset(memory, 0, padded);
  return {std::shared_ptr<void>(memory, [](void* p) { std::free(p); }), type, shape};
}

}  // namespace unmask
