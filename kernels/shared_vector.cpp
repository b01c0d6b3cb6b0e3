// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/shared_vector.h"

#include <cstdlib>
#include <cstring>
#include <new>

namespace unmask {
namespace {

shared_memory_source current;
// In front of every block: how to give it back, whatever the source is by then.
constexpr std::size_t header = 64;

}  // namespace

void set_shared_memory_source(const shared_memory_source& source) {
  current = source;
}

void* allocate_shared(std::size_t bytes) {
  const shared_memory_source source = current;
  const std::size_t whole = (bytes + header + 63) / 64 * 64;
  void* block = source.allocate != nullptr ? source.allocate(whole) : std::aligned_alloc(64, whole);
  if (block == nullptr) throw std::bad_alloc();
  std::memcpy(block, &source, sizeof source);
  return static_cast<unsigned char*>(block) + header;
}

void release_shared(void* memory) noexcept {
  if (memory == nullptr) return;
  void* block = static_cast<unsigned char*>(memory) - header;
  shared_memory_source source;
  std::memcpy(&source, block, sizeof source);
  if (source.release != nullptr) {
    source.release(block);
  } else {
    std::free(block);
  }
}

}  // namespace unmask
