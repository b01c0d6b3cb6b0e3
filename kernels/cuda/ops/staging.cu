// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/staging.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "harness/base/error.h"
#include "kernels/cuda/posting.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

// Blocks side by side, as those that are allocated together are, share a copy. What lies between them
// is known to both sides and goes once more.
static constexpr std::ptrdiff_t copied_gap = 16 << 10;
// Between two changed parts, which is mostly the unused end of a list. An estimate of what crosses the bus
// in the time that another copy would take; no card has measured it.
static constexpr std::ptrdiff_t sent_gap = 64 << 10;

staging& staging::of_backend() {
  static auto* one = new staging;
  return *one;
}

// Slabs of host memory lie in one range of addresses, so that other pointers are told apart by a
// comparison.
void staging::add_slab(std::size_t bytes) {
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
  slabs_.push_back({next_,
                    {{next_, size}},
                    allocate_memory(size, memory_kind::device),
                    allocate_memory(size, memory_kind::pinned)});
  next_ += size;
}

std::uintptr_t staging::take_range(slab& from, std::size_t room) {
  for (auto range = from.free.begin(); range != from.free.end(); ++range) {
    const auto [address, bytes] = *range;
    if (bytes < room) continue;
    from.free.erase(range);
    if (bytes > room) from.free[address + room] = bytes - room;
    return address;
  }
  return 0;
}

// The lowest address that will do: lists that are allocated together lie together, whatever was
// allocated and released before them, and so share copies.
void* staging::allocate(std::size_t bytes) {
  const std::size_t room =
      (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  for (std::size_t index = 0;; ++index) {
    if (index == slabs_.size()) add_slab(room);
    slab& s = slabs_[index];
    const std::uintptr_t host = take_range(s, room);
    if (host == 0) continue;
    const std::size_t at = host - s.host;
    blocks_[host] = {bytes, room, static_cast<int>(index),
                     static_cast<unsigned char*>(s.device.get()) + at,
                     static_cast<unsigned char*>(s.known.get()) + at};
    return reinterpret_cast<void*>(host);
  }
}

// What device and host know of these bytes is the same now, and stays so for the next to take them.
void staging::recycle(blocks::iterator released) {
  std::map<std::uintptr_t, std::size_t>& free =
      slabs_[static_cast<std::size_t>(released->second.slab)].free;
  auto range = free.emplace(released->first, released->second.room).first;
  blocks_.erase(released);
  const auto next = std::next(range);
  if (next != free.end() && range->first + range->second == next->first) {
    range->second += next->second;
    free.erase(next);
  }
  if (range == free.begin()) return;
  const auto before = std::prev(range);
  if (before->first + before->second != range->first) return;
  before->second += range->second;
  free.erase(range);
}

// Kernels in flight may still read it: later copies to the device come behind them. What they write
// has to arrive first.
void staging::release(void* host) noexcept {
  const auto at = blocks_.find(reinterpret_cast<std::uintptr_t>(host));
  at->second.released = true;
  if (!at->second.behind) recycle(at);
}

staging::blocks::iterator staging::block_of(const void* host) {
  const auto address = reinterpret_cast<std::uintptr_t>(host);
  const auto next = blocks_.upper_bound(address);
  if (next != blocks_.begin()) {
    const auto at = std::prev(next);
    if (address <= at->first + at->second.room) return at;
  }
  throw std::logic_error("a kernel is given a list that has been released");
}

// Whether the host has changed a block that kernels do not write now: it is known then, and where. (A
// block that is released and not recycled yet is one that kernels write.)
bool staging::take_changes(blocks::value_type& named) {
  auto& [address, b] = named;
  const auto* mine = reinterpret_cast<const unsigned char*>(address);
  if (b.behind || std::memcmp(mine, b.known, b.bytes) == 0) return false;
  constexpr std::size_t piece = 64;
  std::size_t first = 0, last = b.bytes;
  while (last - first > piece && std::memcmp(mine + first, b.known + first, piece) == 0) {
    first += piece;
  }
  while (last - first > piece &&
         std::memcmp(mine + last - piece, b.known + last - piece, piece) == 0) {
    last -= piece;
  }
  std::memcpy(b.known + first, mine + first, last - first);
  b.changed_first = first;
  b.changed_last = last;
  return true;
}

// A copy costs as much as a small kernel: changed blocks near this one go with it, up to the next
// one that kernels write.
void staging::send(queue& work, blocks::iterator changed) {
  const auto near = [](const block& a, const block& b) {
    return a.slab == b.slab && b.known - (a.known + a.bytes) <= copied_gap;
  };
  std::vector<const block*> all{&changed->second};
  auto last = changed;
  for (auto at = std::next(changed); at != blocks_.end() && !at->second.behind; ++at) {
    if (!near(last->second, at->second)) break;
    if (!take_changes(*at)) continue;
    last = at;
    all.push_back(&at->second);
  }
  auto first = changed;
  for (auto at = changed; at != blocks_.begin();) {
    if ((--at)->second.behind || !near(at->second, first->second)) break;
    if (!take_changes(*at)) continue;
    first = at;
    all.insert(all.begin(), &at->second);
  }
  for (std::size_t i = 0; i < all.size();) {
    const block& from = *all[i];
    const unsigned char* end = from.known + from.changed_last;
    for (++i; i < all.size() && all[i]->known + all[i]->changed_first - end <= sent_gap; ++i) {
      end = all[i]->known + all[i]->changed_last;
    }
    work.copy_to_device(from.device + from.changed_first, from.known + from.changed_first,
                        static_cast<std::size_t>(end - from.known) - from.changed_first);
  }
}

void* staging::on_device(queue& work, const void* host, bool written) {
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

bool staging::is_behind(const void* host) const {
  return holds(host) && const_cast<staging*>(this)->block_of(host)->second.behind;
}

void* staging::pinned_copy(const void* host) {
  const auto at = block_of(host);
  return at->second.known + (reinterpret_cast<std::uintptr_t>(host) - at->first);
}

void posting::take() {
  work_.wait_for_posted();
  for (const piece& p : pieces_) std::memcpy(p.host, p.home, p.bytes);
  pieces_.clear();
}

void staging::start_fetching(queue& work) {
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

void staging::finish_fetching() {
  for (auto* named : behind_) {
    auto& [address, b] = *named;
    b.behind = false;
    if (b.released) {
      recycle(blocks_.find(address));
    } else {
      std::memcpy(reinterpret_cast<void*>(address), b.known, b.bytes);
    }
  }
  behind_.clear();
}

}  // namespace unmask::cuda::UNMASK_TARGET
