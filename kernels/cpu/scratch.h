// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace unmask::cpu {

// Memory a kernel needs while it runs: one per thread and use, grows and never shrinks, so that a
// step allocates nothing once it has been run before. Contents are undefined.
class scratch {
 public:
  scratch() = default;
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() { std::free(memory_); }

  template <class T>
  T* get(std::size_t count) {
    const std::size_t bytes = (count * sizeof(T) + 127) / 64 * 64;
    if (bytes > capacity_) {
      std::free(memory_);
      capacity_ = 0;
      memory_ = std::aligned_alloc(64, bytes + bytes / 4 / 64 * 64);
      if (memory_ == nullptr) throw std::bad_alloc();
      capacity_ = bytes + bytes / 4 / 64 * 64;
    }
    return static_cast<T*>(memory_);
  }
  template <class T>
  T* get(std::int64_t count) {
    return get<T>(static_cast<std::size_t>(count));
  }

 private:
  void* memory_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace unmask::cpu
