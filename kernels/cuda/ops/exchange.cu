// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/exchange.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "harness/base/error.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

// Blocks side by side, as those that are allocated together are, share a copy. What lies between them
// is known to both sides and goes once more.
static constexpr std::ptrdiff_t copied_gap = 16 << 10;

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

exchange::blocks::iterator exchange::block_of(const void* host) {
  return std::prev(blocks_.upper_bound(reinterpret_cast<std::uintptr_t>(host)));
}

// Whether the host has changed a block that kernels do not write now: it is known then.
bool exchange::take_changes(blocks::value_type& named) {
  auto& [address, b] = named;
  const void* mine = reinterpret_cast<const void*>(address);
  if (b.behind || b.released || std::memcmp(mine, b.known, b.bytes) == 0) return false;
  std::memcpy(b.known, mine, b.bytes);
  return true;
}

// A copy costs as much as a small kernel: changed blocks near this one go with it, up to the next
// one that kernels write.
void exchange::send(queue& work, blocks::iterator changed) {
  const auto reaches = [](blocks::iterator from, blocks::iterator to) {
    const block &a = from->second, &b = to->second;
    return a.slab == b.slab && b.known - (a.known + a.bytes) <= copied_gap;
  };
  auto first = changed, last = changed;
  for (auto at = std::next(changed); at != blocks_.end() && !at->second.behind; ++at) {
    if (!reaches(last, at)) break;
    if (take_changes(*at)) last = at;
  }
  for (auto at = changed; at != blocks_.begin();) {
    if ((--at)->second.behind || !reaches(at, first)) break;
    if (take_changes(*at)) first = at;
  }
  const block &from = first->second, &to = last->second;
  work.copy_to_device(from.device, from.known,
                      static_cast<std::size_t>(to.known - from.known) + to.bytes);
}

void* exchange::on_device(queue& work, const void* host, bool written) {
  const auto at = block_of(host);
  auto& [address, b] = *at;
  if (noted_ != nullptr) {
    noted_->emplace_back(host, written);
    if (written) work.lists_change();
  } else {
    if (take_changes(*at)) {
      work.lists_change();
      send(work, at);
    }
    if (written) work.lists_change();
    if (written && !b.behind) {
      b.behind = true;
      behind_.push_back(&*at);
    }
  }
  return b.device + (reinterpret_cast<std::uintptr_t>(host) - address);
}

bool exchange::is_behind(const void* host) const {
  return holds(host) && const_cast<exchange*>(this)->block_of(host)->second.behind;
}

void exchange::start_fetching(queue& work) {
  std::sort(behind_.begin(), behind_.end(),
            [](const auto* a, const auto* b) { return a->second.known < b->second.known; });
  for (std::size_t i = 0; i < behind_.size();) {
    const block& first = behind_[i]->second;
    const block* last = &first;
    for (++i; i < behind_.size(); ++i) {
      const block& next = behind_[i]->second;
      const std::ptrdiff_t between = next.known - (last->known + last->bytes);
      if (next.slab != first.slab || between > copied_gap) break;
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
