// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/host_memory.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace unmask {

std::shared_ptr<void> host_block(std::size_t bytes) {
  constexpr std::size_t large_page = std::size_t{2} << 20;
  const bool large = bytes >= large_page;
  const std::size_t alignment = large ? large_page : 64;
  const std::size_t padded =
      std::max<std::size_t>((bytes + alignment - 1) / alignment, 1) * alignment;
  void* memory = std::aligned_alloc(alignment, padded);
  if (memory == nullptr) return nullptr;
#if defined(MADV_HUGEPAGE)
  if (large) (void)madvise(memory, padded, MADV_HUGEPAGE);
#endif
  std::memset(memory, 0, padded);
  return {memory, [](void* p) { std::free(p); }};
}

tensor allocate_host(dtype type, std::initializer_list<std::int64_t> shape) {
  std::size_t bytes = size_of(type);
  for (const std::int64_t n : shape) {
    if (n < 0) throw std::logic_error("allocate: negative dimension");
    bytes *= static_cast<std::size_t>(n);
  }
  constexpr std::size_t spare = 64;  // a whole vector may be read at the end
  std::shared_ptr<void> memory = host_block(bytes + spare);
  if (memory == nullptr) {
    throw environment_error("out of memory: cannot allocate " + std::to_string(bytes >> 20) +
                            " MiB for a tensor; use a smaller model, batch or cache");
  }
  return {std::move(memory), type, shape};
}

}  // namespace unmask
