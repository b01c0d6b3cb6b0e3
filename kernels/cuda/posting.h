// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Lists that a kernel makes and the host reads at once, between two stretches of layers. The kernel writes
// each entry twice: to device memory, for the kernels that follow, and to the pinned copy that staging keeps of
// it (staging.h). So the host waits once, fetches nothing and sends nothing back.
//
// One thread asks for everything, and the order in which it asks keeps host and kernels apart:
//   list()   sends what the host has changed. Until take() the host leaves the pinned copies alone.
//   launch   the kernel alone writes them: every copy home that was asked for before has been waited for.
//   take()   waits for the kernel, and then copies the entries to the host's lists. What may write the pinned
//            copies next, such a kernel or a copy home, is asked for later.
// A copy to the device reads none of them while it is under way: queue::copy_to_device takes its bytes at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

template <class T>
struct posted_list {
  T* here = nullptr;  // device memory
  T* home = nullptr;  // pinned memory; null: the host reads `here`
  UNMASK_DEVICE void put(std::int64_t i, T value) const {
    here[i] = value;
    if (home != nullptr) home[i] = value;
  }
};

class posting {
 public:
  explicit posting(queue& work) : work_(work) {}
  // The first `count` elements of a list of the host's. The kernel may read them before it writes them.
  template <class T>
  posted_list<T> list(T* host, std::int64_t count) {
    auto* here = static_cast<T*>(work_.on_device(host, false));
    auto* home = static_cast<T*>(work_.pinned_copy(host));
    if (home != nullptr)
      pieces_.push_back({host, home, static_cast<std::size_t>(count) * sizeof(T)});
    return {here, home};
  }
  // Behind the launch. What other kernels wrote stays for the next synchronize().
  void take();

 private:
  struct piece {
    void* host;
    const void* home;
    std::size_t bytes;
  };
  queue& work_;
  std::vector<piece> pieces_;
};

}  // namespace unmask::cuda::UNMASK_TARGET
