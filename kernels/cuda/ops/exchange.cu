// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/exchange.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "harness/base/error.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

exchange& exchange::of_backend() {
  static auto* one = new exchange;
  return *one;
}

// Slabs of host memory lie in one range of addresses, so that other pointers are told apart by a
// comparison.
int exchange::slab_with(std::size_t bytes) {
  for (std::size_t i = 0; i < slabs_.size(); ++i) {
    if (slabs_[i].bytes - slabs_[i].used >= bytes) return static_cast<int>(i);
  }
  constexpr std::size_t usual = std::size_t{4} << 20;
  const std::size_t size = std::max(usual, bytes);
  if (first_ == 0) {
    void* range =
        mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) throw environment_error("out of memory: no addresses are left");
    first_ = next_ = reinterpret_cast<std::uintptr_t>(range);
  }
  if (next_ + size > first_ + reserved ||
      mprotect(reinterpret_cast<void*>(next_), size, PROT_READ | PROT_WRITE) != 0) {
    throw environment_error("out of memory: cannot allocate " + std::to_string(size >> 20) +
                            " MiB for lists; use a smaller batch");
  }
  slabs_.push_back({next_, size, 0, allocate_memory(size, memory_kind::device),
                    allocate_memory(size, memory_kind::pinned)});
  next_ += size;
  return static_cast<int>(slabs_.size()) - 1;
}

void* exchange::allocate(std::size_t bytes) {
  const std::size_t room = std::bit_ceil(std::max(bytes, std::size_t{1} << smallest));
  const int size = std::countr_zero(room);
  std::vector<std::uintptr_t>& kept = free_.at(static_cast<std::size_t>(size - smallest));
  if (!kept.empty()) {
    const std::uintptr_t host = kept.back();
    kept.pop_back();
    block& b = blocks_.at(host);
    b.bytes = bytes;
    b.released = false;
    return reinterpret_cast<void*>(host);
  }
  const int index = slab_with(room);
  slab& s = slabs_[static_cast<std::size_t>(index)];
  const std::size_t at = std::exchange(s.used, s.used + room);
  blocks_[s.host + at] = {bytes, size, index, static_cast<unsigned char*>(s.device.get()) + at,
                          static_cast<unsigned char*>(s.known.get()) + at};
  return reinterpret_cast<void*>(s.host + at);
}

void exchange::recycle(std::uintptr_t host, const block& b) {
  free_[static_cast<std::size_t>(b.size - smallest)].push_back(host);
}

// Kernels in flight may still read it: later copies to the device come behind them. What they write
// has to arrive first.
void exchange::release(void* host) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(host);
  block& b = blocks_.at(at);
  b.released = true;
  if (!b.behind) recycle(at, b);
}

exchange::blocks::value_type* exchange::block_of(const void* host) {
  auto after = blocks_.upper_bound(reinterpret_cast<std::uintptr_t>(host));
  return &*--after;
}

void* exchange::on_device(queue& work, const void* host, bool written) {
  auto& [address, b] = *block_of(host);
  if (noted_ != nullptr) {
    noted_->emplace_back(host, written);
    if (written) work.lists_change();
  } else {
    auto* mine = reinterpret_cast<const unsigned char*>(address);
    if (!b.behind && std::memcmp(mine, b.known, b.bytes) != 0) {
      work.lists_change();
      std::memcpy(b.known, mine, b.bytes);
      work.copy_to_device(b.device, mine, b.bytes);
    }
    if (written) work.lists_change();
    if (written && !b.behind) {
      b.behind = true;
      behind_.push_back(block_of(host));
    }
  }
  return b.device + (reinterpret_cast<std::uintptr_t>(host) - address);
}

bool exchange::is_behind(const void* host) const {
  return holds(host) && const_cast<exchange*>(this)->block_of(host)->second.behind;
}

// Blocks side by side, as those that are allocated together are, come in one copy. What lies
// between them is known already, and comes once more.
void exchange::start_fetching(queue& work) {
  constexpr std::ptrdiff_t gap = 16 << 10;
  std::sort(behind_.begin(), behind_.end(),
            [](const auto* a, const auto* b) { return a->second.known < b->second.known; });
  for (std::size_t i = 0; i < behind_.size();) {
    const block& first = behind_[i]->second;
    const block* last = &first;
    for (++i; i < behind_.size(); ++i) {
      const block& next = behind_[i]->second;
      const std::ptrdiff_t between = next.known - (last->known + last->bytes);
      if (next.slab != first.slab || between > gap) break;
      last = &next;
    }
    work.copy_to_host(first.known, first.device,
                      static_cast<std::size_t>(last->known - first.known) + last->bytes);
  }
}

void exchange::finish_fetching() {
  for (auto* named : behind_) {
    auto& [address, b] = *named;
    b.behind = false;
    if (b.released) {
      recycle(address, b);
    } else {
      std::memcpy(reinterpret_cast<void*>(address), b.known, b.bytes);
    }
  }
  behind_.clear();
}

}  // namespace unmask::cuda::UNMASK_TARGET
