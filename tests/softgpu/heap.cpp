// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/heap.h"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
}

namespace unmask::softgpu::heap {
namespace {

template <class T>
struct plain_allocator {  // not through malloc(), which we are
  using value_type = T;
  plain_allocator() = default;
  template <class U>
  plain_allocator(const plain_allocator<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(__libc_malloc(n * sizeof(T))); }
  void deallocate(T* p, std::size_t) { __libc_free(p); }
  bool operator==(const plain_allocator&) const { return true; }
};
struct block {
  std::uintptr_t end;
  bool live;
};
using blocks = std::map<std::uintptr_t, block, std::less<>,
                        plain_allocator<std::pair<const std::uintptr_t, block>>>;

std::atomic<int> state{0};  // 0 unknown, 1 off, 2 on
std::atomic_flag busy = ATOMIC_FLAG_INIT;
alignas(blocks) unsigned char room[sizeof(blocks)];
blocks* all = nullptr;

struct locked {
  locked() {
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~locked() { busy.clear(std::memory_order_release); }
};

bool on() {
  int s = state.load();
  if (s == 0) {
    const char* text = std::getenv("UNMASK_SOFTGPU_HEAP");
    s = text != nullptr && std::strcmp(text, "on") == 0 ? 2 : 1;
    if (s == 2 && all == nullptr) all = new (room) blocks;
    state.store(s);
  }
  return s == 2;
}

void took(void* p, std::size_t bytes) {
  if (p == nullptr || !on()) return;
  const locked lock;
  const auto begin = reinterpret_cast<std::uintptr_t>(p), end = begin + (bytes > 0 ? bytes : 1);
  auto at = all->lower_bound(begin);
  if (at != all->begin()) {
    auto before = std::prev(at);
    if (before->second.end > begin) all->erase(before);
  }
  while (at != all->end() && at->first < end) at = all->erase(at);
  (*all)[begin] = {end, true};
}
void gave(void* p) {
  if (p == nullptr || !on()) return;
  const locked lock;
  const auto at = all->find(reinterpret_cast<std::uintptr_t>(p));
  if (at != all->end()) at->second.live = false;
}

}  // namespace

found look_up(std::uintptr_t address, std::size_t bytes) {
  if (!on()) return {};
  const locked lock;
  auto at = all->upper_bound(address);
  if (at == all->begin()) return {};
  --at;
  const std::size_t size = at->second.end - at->first;
  if (address < at->second.end) {
    if (!at->second.live) return {place::freed, size, 0};
    return {address + bytes <= at->second.end ? place::inside : place::over_the_end, size, 0};
  }
  const std::size_t distance = address - at->second.end;
  if (distance < 4096) return {place::behind, size, distance};
  return {};
}

}  // namespace unmask::softgpu::heap

using namespace unmask::softgpu::heap;

extern "C" {

void* malloc(std::size_t bytes) {
  void* p = __libc_malloc(bytes);
  took(p, bytes);
  return p;
}
void* calloc(std::size_t count, std::size_t each) {
  void* p = __libc_calloc(count, each);
  took(p, count * each);
  return p;
}
void* realloc(void* old, std::size_t bytes) {
  gave(old);
  void* p = __libc_realloc(old, bytes);
  took(p, bytes);
  return p;
}
void* memalign(std::size_t align, std::size_t bytes) {
  void* p = __libc_memalign(align, bytes);
  took(p, bytes);
  return p;
}
void* aligned_alloc(std::size_t align, std::size_t bytes) {
  return memalign(align, bytes);
}
int posix_memalign(void** p, std::size_t align, std::size_t bytes) {
  *p = memalign(align, bytes);
  return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) {
  gave(p);
  __libc_free(p);
}

}  // extern "C"
