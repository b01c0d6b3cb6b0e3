// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Memory that host code and kernels share: lists, states, decisions, a few bytes per row. The host
// reads and writes it in place, as ordinary memory; kernels work on a copy in device memory, because
// each of their reads over the bus would take a microsecond or two. The launcher of an operation
// names what its kernels read and write (device_backend::in and out):
//   in    copies what the host has changed since, through pinned memory in launch order, and what
//         it has changed beside that; the host may change it again at once
//   out   the same, and the next wait brings it back: the host reads it and writes it only then
// Changes are found by comparing with what the device has, so nothing has to announce them, and of a
// list the part that changed travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/device/portable.h"

namespace unmask::cuda::UNMASK_TARGET {

class queue;

class staging {
 public:
  // Of this backend. It is never destroyed: tensors may outlive every queue.
  static staging& of_backend();

  void* allocate(std::size_t bytes);  // contents undefined
  void release(void* host) noexcept;

  bool holds(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return first_ != 0 && at - first_ < reserved;
  }
  // Copies go through `work`, in its order.
  void* on_device(queue& work, const void* host, bool written);
  // A kernel has written it since the last wait.
  bool is_behind(const void* host) const;
  bool owes_results() const { return !behind_.empty(); }  // of any block
  // Where the pinned copy of a host address is (posting.h).
  void* pinned_copy(const void* host);

  // What recorded launches use: copied whenever they are repeated.
  using uses = std::vector<std::pair<const void*, bool>>;
  void note_into(uses* list) { noted_ = list; }

  void start_fetching(queue& work);  // queues the copies back
  void finish_fetching();            // they have arrived

 private:
  static constexpr std::size_t reserved = std::size_t{1} << 36;  // addresses, not memory
  static constexpr std::size_t alignment = 256;
  struct slab {
    std::uintptr_t host = 0;
    std::map<std::uintptr_t, std::size_t> free;  // ranges by address, never two side by side
    std::shared_ptr<void> device, known;
  };
  struct block {
    std::size_t bytes = 0, room = 0;  // asked for; taken
    int slab = 0;
    unsigned char* device = nullptr;
    unsigned char* known = nullptr;  // what the device has, in pinned memory
    bool behind = false, released = false;
    std::size_t changed_first = 0, changed_last = 0;  // bytes that the host has changed, half open
  };
  using blocks = std::map<std::uintptr_t, block>;
  staging() = default;
  void add_slab(std::size_t bytes);
  // The lowest free range of that many bytes, or 0.
  std::uintptr_t take_range(slab& from, std::size_t room);
  blocks::iterator block_of(const void* host);
  static bool take_changes(blocks::value_type& named);
  void send(queue& work, blocks::iterator changed);
  void recycle(blocks::iterator released);

  std::uintptr_t first_ = 0, next_ = 0;
  std::vector<slab> slabs_;
  blocks blocks_;
  std::vector<blocks::value_type*> behind_;
  uses* noted_ = nullptr;
};

}  // namespace unmask::cuda::UNMASK_TARGET
