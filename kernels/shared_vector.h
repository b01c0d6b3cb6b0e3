// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// std::vector in memory that the operations of every backend in use can read and write. Host code
// that hands operations an array it keeps in a vector uses this; std::vector and arrays on the stack are
// out of a GPU's reach. What an operation writes must not be read before backend::synchronize().
#pragma once

#include <cstddef>
#include <vector>

namespace unmask {

// A backend whose operations cannot read ordinary memory names what they can; from then on
// shared_vectors allocate there. Null: ordinary memory.
struct shared_memory_source {
  void* (*allocate)(std::size_t bytes) = nullptr;
  void (*release)(void* memory) = nullptr;
};
void set_shared_memory_source(const shared_memory_source& source);
void* allocate_shared(std::size_t bytes);
void release_shared(void* memory) noexcept;

template <class T>
struct shared_memory_allocator {
  using value_type = T;
  shared_memory_allocator() = default;
  template <class U>
  shared_memory_allocator(const shared_memory_allocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(allocate_shared(n * sizeof(T))); }
  void deallocate(T* p, std::size_t) noexcept { release_shared(p); }
  bool operator==(const shared_memory_allocator&) const { return true; }
};

template <class T>
using shared_vector = std::vector<T, shared_memory_allocator<T>>;

}  // namespace unmask
