// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a lane's address names: bounds and alignment are checked, and races in global memory where
// they are asked for.
#include <sys/mman.h>

#include "tests/softgpu/heap.h"
#include "tests/softgpu/machine.h"

namespace unmask::softgpu {
namespace {

constexpr int illegal_address = 700, misaligned = 716;
constexpr std::uint32_t block_bits = 24;  // of access_record's numbers

std::string hex(std::uint64_t v) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(v));
  return text;
}

// Pages that were there when this launch first touched them.
bool mapped(std::uint64_t launch, std::uintptr_t address, std::size_t bytes) {
  static std::pair<std::uintptr_t, std::uint64_t> known[4096];
  constexpr std::uintptr_t page = 4096;
  for (std::uintptr_t p = address / page; p <= (address + bytes - 1) / page; ++p) {
    auto& k = known[p % 4096];
    if (k.first == p && k.second == launch) continue;
    unsigned char resident = 0;
    if (p == 0 || mincore(reinterpret_cast<void*>(p * page), 1, &resident) != 0) return false;
    k = {p, launch};
  }
  return true;
}
// A byte that another block or warp of this launch touched before.
struct byte_access {
  warp& w;
  const instruction& i;
  int lane;
  const allocation& a;
  std::uint64_t byte;  // of the allocation
  bool write, atomic;

  std::uint64_t me() const {
    return w.in->launch << block_bits | (w.in->number & ((1U << block_bits) - 1));
  }
  bool of_this_launch(std::uint64_t who) const {
    return who != 0 && who >> block_bits == w.in->launch;
  }
  void note_race(bool between_blocks, const std::string& other) const {
    note(w, i, lane, between_blocks ? "global race between blocks" : "global race between warps",
         std::string(write ? "writes" : "reads") + " byte " + std::to_string(byte) +
             " of an allocation of " + std::to_string(a.end - a.begin) + " that " + other +
             " in the same launch with nothing between");
  }
  void compare_with_writer(const access_record& r) const {
    if (!of_this_launch(r.written) || (atomic && r.atomic)) return;
    const bool block = r.written != me();
    if (block && knows_of(w, r.written & ((1U << block_bits) - 1), r.write_warp, r.write_clock)) {
      return;
    }
    if (!block && (r.write_warp == w.index || r.write_epoch != w.in->epoch)) return;
    note_race(block, "block " + std::to_string(r.written & ((1U << block_bits) - 1)) + " warp " +
                         std::to_string(r.write_warp) + " wrote");
  }
  void compare_with_reader(const access_record& r) const {
    if (!of_this_launch(r.read) || atomic) return;
    const bool block = r.read != me() || r.many;
    if (!block && (r.read_warp == w.index || r.read_epoch != w.in->epoch)) return;
    note_race(block, "block " + std::to_string(r.read & ((1U << block_bits) - 1)) + " warp " +
                         std::to_string(r.read_warp) + " read");
  }
  void record(access_record& r) const {
    compare_with_writer(r);
    if (write) {
      compare_with_reader(r);
      r.written = me();
      r.write_epoch = w.in->epoch;
      r.write_clock = w.now[static_cast<std::size_t>(w.index)];
      r.write_warp = static_cast<std::uint16_t>(w.index);
      r.atomic = atomic;
    } else {
      r.many = of_this_launch(r.read) && (r.many || r.read != me());
      r.read = me();
      r.read_epoch = w.in->epoch;
      r.read_warp = static_cast<std::uint16_t>(w.index);
    }
  }
};

void look_for_races(warp& w, const instruction& i, int lane, allocation& a, std::uint64_t address,
                    std::uint32_t bytes, bool write, bool atomic) {
  constexpr std::size_t most = std::size_t{8} << 20;  // bytes of an allocation that is followed
  if (a.records.empty()) {
    if (a.end - a.begin > most) return;
    a.records.resize(a.end - a.begin);
  }
  for (std::uint64_t byte = address - a.begin; byte < address - a.begin + bytes; ++byte) {
    byte_access{w, i, lane, a, byte, write, atomic}.record(a.records[byte]);
  }
}

std::uint8_t* reach_shared(warp& w, const instruction& i, int lane, block& b, std::uint64_t address,
                           std::uint32_t bytes, bool write, bool atomic) {
  if (address < shared_base || address + bytes > b.shared_end) {
    fail(w, i, lane, illegal_address,
         "shared address " + std::to_string(static_cast<std::int64_t>(address) - shared_base) +
             ", " + std::to_string(bytes) + " bytes, of a block with " +
             std::to_string(b.shared_end - shared_base));
  }
  const auto at = static_cast<std::uint32_t>(address);
  if (!write) shared_read(w, i, lane, b, at, bytes);
  if (atomic && b.flags[at] == 0) note(w, i, lane, "uninitialised shared memory", "an atomic");
  if (write) shared_written(w, i, lane, b, at, bytes, atomic);
  return b.shared.data() + at;
}

std::uint8_t* reach_local(warp& w, const instruction& i, int lane, std::uint64_t address,
                          std::uint32_t bytes) {
  const std::size_t each = w.k->local_bytes;
  if (address + bytes > each) {
    fail(w, i, lane, illegal_address, "local byte " + std::to_string(address));
  }
  return w.in->local.data() + static_cast<std::size_t>(w.thread(lane)) * each + address;
}

std::uint8_t* reach_parameter(warp& w, const instruction& i, int lane, std::uint64_t address,
                              std::uint32_t bytes, bool write) {
  if (write || address + bytes > w.in->parameters->size()) {
    fail(w, i, lane, illegal_address, "parameter byte " + std::to_string(address));
  }
  return w.in->parameters->data() + address;
}

// Ordinary host memory, as a GPU reads it that shares the host's page tables.
std::uint8_t* reach_host(const warp& w, const instruction& i, int lane, std::uint64_t address,
                         std::uint32_t bytes, bool write) {
  const heap::found f = heap::look_up(address, bytes);
  if (f.where != heap::place::unknown && f.where != heap::place::inside) {
    const char* how = f.where == heap::place::freed ? "in a block of the heap that was freed, of "
                      : f.where == heap::place::behind ? "behind a block of the heap of "
                                                       : "over the end of a block of the heap of ";
    note(w, i, lane, "outside the heap's blocks",
         std::string(write ? "writes " : "reads ") + std::to_string(bytes) + " bytes " + how +
             std::to_string(f.bytes) + " bytes, distance " + std::to_string(f.distance));
  }
  return reinterpret_cast<std::uint8_t*>(address);
}

[[noreturn]] void fail_outside(const warp& w, const instruction& i, int lane, std::uint64_t address,
                               std::uint32_t bytes, bool write) {
  std::string what = "global address " + hex(address) + ", " + std::to_string(bytes) + " bytes, " +
                     (write ? "to write" : "to read");
  const auto size = [](const allocation& a) { return std::to_string(a.end - a.begin); };
  if (const allocation* a = memory::all().find(address)) {
    what += ": over the end of an allocation of " + size(*a);
  } else {
    for (std::uint64_t back = 1; back < (1U << 20); back *= 2) {
      const allocation* near = memory::all().find(address - back);
      if (near == nullptr) continue;
      what += ": " + std::to_string(address - near->end) + " bytes behind an allocation of " +
              size(*near);
      break;
    }
  }
  fail(w, i, lane, illegal_address, what);
}

std::uint8_t* reach_global(warp& w, const instruction& i, int lane, std::uint64_t address,
                           std::uint32_t bytes, bool write, bool atomic) {
  if (w.in->grid->followed_accesses) look_for_early_access(w, i, lane, address, bytes, write);
  allocation* a = w.last;
  if (a == nullptr || address < a->begin || address + bytes > a->end) {
    a = memory::all().find(address);
    if (a == nullptr && options().pageable && address >= 4096 &&
        mapped(w.in->launch, address, bytes)) {
      return reach_host(w, i, lane, address, bytes, write);
    }
    if (a == nullptr || address + bytes > a->end) fail_outside(w, i, lane, address, bytes, write);
    w.last = a;
  }
  if (options().global_races) look_for_races(w, i, lane, *a, address, bytes, write, atomic);
  return reinterpret_cast<std::uint8_t*>(address + static_cast<std::uintptr_t>(a->to_host));
}

}  // namespace

std::uint8_t* reach(warp& w, const instruction& i, int lane, space s, std::uint64_t address,
                    std::uint32_t bytes, bool write, bool atomic) {
  if (s == space::generic) {
    const std::uint64_t window = address >> 40 << 40;
    s = window == shared_window      ? space::cluster
        : window == local_window     ? space::local
        : window == parameter_window ? space::parameter
                                     : space::global;
    address -= s == space::global ? 0 : window;
  }
  if (address % bytes != 0) {
    fail(w, i, lane, misaligned,
         "address " + hex(address) + " is not a multiple of " + std::to_string(bytes));
  }
  switch (s) {
    case space::shared:
      return reach_shared(w, i, lane, *w.in, address, bytes, write, atomic);
    case space::cluster: {
      block& b = block_at(w, i, lane, address);
      return reach_shared(w, i, lane, b, address & shared_mask, bytes, write, atomic);
    }
    case space::local:
      return reach_local(w, i, lane, address, bytes);
    case space::parameter:
      return reach_parameter(w, i, lane, address, bytes, write);
    default:
      return reach_global(w, i, lane, address, bytes, write, atomic);
  }
}

}  // namespace unmask::softgpu
