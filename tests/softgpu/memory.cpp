// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Device memory: allocations lie apart from each other, at addresses that the host cannot touch.
#include <sys/mman.h>

#include <algorithm>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {
namespace {

constexpr std::size_t window = std::size_t{96} << 30;
constexpr std::size_t apart = 512;  // unowned bytes behind every allocation

}  // namespace

memory& memory::all() {
  static auto* one = new memory;
  return *one;
}

allocation* memory::take(std::size_t bytes, allocation::home where) {
  if (bytes == 0) bytes = 1;
  if (hidden_ == 0) {
    void* a = mmap(nullptr, window, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void* b = mmap(nullptr, window, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (a == MAP_FAILED || b == MAP_FAILED) return nullptr;
    hidden_ = reinterpret_cast<std::uintptr_t>(a);
    seen_ = reinterpret_cast<std::uintptr_t>(b);
  }
  if (used_ + bytes > capacity) return nullptr;
  const std::size_t room = (bytes + apart + 511) / 512 * 512;
  std::size_t at = 0;
  const auto kept = free_.find(room);
  if (kept != free_.end()) {
    at = kept->second;
    free_.erase(kept);
  } else {
    if (next_ + room > window) return nullptr;
    at = next_;
    next_ += room;
  }
  auto one = std::make_unique<allocation>();
  const bool open =
      options().open || where == allocation::home::pinned || where == allocation::home::managed;
  one->begin = (open ? seen_ : hidden_) + at;
  one->end = one->begin + bytes;
  one->to_host =
      open ? 0 : static_cast<std::ptrdiff_t>(seen_) - static_cast<std::ptrdiff_t>(hidden_);
  one->where = where;
  used_ += bytes;
  // Contents are undefined on a GPU: here they are wild.
  std::memset(reinterpret_cast<void*>(seen_ + at), 0xCB, std::min(bytes, std::size_t{4} << 20));
  allocation* made = one.get();
  owned_[one->begin] = std::move(one);
  return made;
}

bool memory::release(std::uintptr_t address) {
  const auto found = owned_.find(address);
  if (found == owned_.end()) return false;
  const allocation& a = *found->second;
  const std::size_t bytes = a.end - a.begin, room = (bytes + apart + 511) / 512 * 512;
  const bool open = a.to_host == 0;
  const std::size_t at = a.begin - (open ? seen_ : hidden_);
  if (bytes >= (std::size_t{1} << 16)) {  // give the pages back
    const std::uintptr_t first = (seen_ + at + 4095) / 4096 * 4096,
                         last = (seen_ + at + bytes) / 4096 * 4096;
    if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
  used_ -= bytes;
  free_.emplace(room, at);
  owned_.erase(found);
  return true;
}

allocation* memory::find(std::uintptr_t address) {
  auto after = owned_.upper_bound(address);
  if (after == owned_.begin()) return nullptr;
  --after;
  return address < after->second->end ? after->second.get() : nullptr;
}

}  // namespace unmask::softgpu
