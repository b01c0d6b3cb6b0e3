// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// mbarrier: barriers in shared memory that count arrivals and the bytes of copies, phase after phase, and
// copies by the bulk engine that report to them (PTX ISA 9.7.13.15 and 9.7.9.25.4). A copy lands whenever it
// likes from its issue on: sometimes at once, or when nothing else can go on.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

constexpr u32 most_arrivals = (1U << 20) - 1;
constexpr s64 most_bytes = (s64{1} << 20) - 1;

u32 place_of(const warp& w, const instruction& i, const operand& o, int lane, s64 offset) {
  const u64 at = o.bytes == 8 ? w.at<u64>(o)[lane] : w.at<u32>(o)[lane];
  const u32 place = static_cast<u32>(at + static_cast<u64>(offset));
  if (place % 8 != 0) fail(w, i, lane, 716, "an mbarrier whose address is no multiple of 8");
  if (place < shared_base || place + 8 > w.in->shared_end) {
    fail(w, i, lane, 700, "an mbarrier outside the block's shared memory");
  }
  return place;
}

mbarrier& valid(warp& w, const instruction& i, int lane, u32 place) {
  const auto found = w.in->mbarriers.find(place);
  if (found == w.in->mbarriers.end()) {
    fail(w, i, lane, 719,
         "shared byte " + std::to_string(place - shared_base) + " is no mbarrier: nobody made it");
  }
  mbarrier& m = found->second;
  const auto maker = static_cast<std::size_t>(m.maker / 32);
  if (m.made > w.now[maker] && m.maker / 32 != w.index) {
    note(w, i, lane, "mbarrier used before its init is known",
         "thread " + std::to_string(m.maker) + " made it, with no barrier between");
  }
  return m;
}

void complete(mbarrier& m) {
  if (m.pending != 0 || m.bytes != 0) return;
  ++m.phase;
  m.pending = m.count;
  m.passed = m.brought;
  m.brought = {};
}

void arrive(warp& w, const instruction& i, int lane, mbarrier& m, u32 arrivals, s64 bytes) {
  if (arrivals == 0 || arrivals > m.pending) {
    fail(w, i, lane, 719,
         std::to_string(arrivals) + " arrivals at an mbarrier that waits for " +
             std::to_string(m.pending));
  }
  m.bytes += bytes;
  if (m.bytes > most_bytes) fail(w, i, lane, 719, "an mbarrier of more than 2^20 - 1 bytes");
  learn(m.brought, w.now);
  m.pending -= arrivals;
  complete(m);
}

void init(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u32 place = place_of(w, i, i.o[0], l, i.offset), count = w.at<u32>(i.o[1])[l];
    if (count == 0 || count > most_arrivals) fail(w, i, l, 719, "the count of an mbarrier");
    shared_written(w, i, l, place, 8);
    mbarrier m;
    m.count = m.pending = count;
    m.maker = w.thread(l);
    m.made = w.now[static_cast<std::size_t>(w.index)];
    w.in->mbarriers[place] = m;
  });
}

void invalidate(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u32 place = place_of(w, i, i.o[0], l, i.offset);
    valid(w, i, l, place);
    w.in->mbarriers.erase(place);
  });
}

// state, address, [count or bytes]. extra: 1 the third operand is bytes; 2 nobody arrives.
void arrive_all(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    mbarrier& m = valid(w, i, l, place_of(w, i, i.o[1], l, i.offset));
    const u32 third = i.count > 2 ? w.at<u32>(i.o[2])[l] : 1;
    if (i.o[0].bank != operand::nowhere) w.at<u64>(i.o[0])[l] = m.phase;
    if (i.extra == 2) {
      m.bytes += third;
    } else {
      arrive(w, i, l, m, i.extra == 1 ? 1 : third, i.extra == 1 ? third : 0);
    }
  });
  ++w.now[static_cast<std::size_t>(w.index)];
}

// predicate, address, parity or state. extra: 1 parity, 2 may wait.
void wait(warp& w, const instruction& i) {
  u32 done = 0;
  each_lane(w.active, [&](int l) {
    const mbarrier& m = valid(w, i, l, place_of(w, i, i.o[1], l, i.offset));
    const bool passed = (i.extra & 1) != 0 ? (m.phase & 1) != (w.at<u32>(i.o[2])[l] & 1)
                                           : m.phase > w.at<u64>(i.o[2])[l];
    if (!passed) return;
    learn(w.now, m.passed);
    done |= 1U << l;
  });
  block& b = *w.in;
  b.coin = b.coin * 1664525U + 1013904223U;
  const bool times_out = w.waited_at != static_cast<int>(i.index) && (b.coin >> 30 & 1) != 0;
  if (done != w.active && (i.extra & 2) != 0 && !times_out) {
    w.is = warp::state::blocked;
    w.blocked_by = "mbarrier.try_wait";
    return;
  }
  // It may say no once, for no reason, and then waits.
  w.waited_at = done == w.active ? -1 : static_cast<int>(i.index);
  u32* p = w.at<u32>(i.o[0]);
  *p = (*p & ~w.active) | done;
}

void land(block& b, std::size_t n) {
  const bulk_copy copy = b.copies[n];
  b.copies.erase(b.copies.begin() + static_cast<std::ptrdiff_t>(n));
  std::memcpy(b.shared.data() + copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes);
  std::memset(b.flags.data() + copy.to, block::written, copy.bytes);
  const u32 clock = ++b.copy_clock;
  if (options().races) {
    for (u32 word = copy.to / 4; word < (copy.to + copy.bytes) / 4; ++word) {
      shared_record& r = b.records[word];
      r.atomic = false;
      r.write_epoch = b.epoch;
      r.write_clock = clock;
      r.fence_clock = 0;
      r.writer = bulk_thread;
    }
  }
  if (b.k->has_wgmma) {
    std::fill_n(b.unfenced.begin() + copy.to, copy.bytes, std::uint16_t{0});
  }
  const auto found = b.mbarriers.find(copy.barrier);
  if (found == b.mbarriers.end()) return;  // note_copies_in_flight says so
  mbarrier& m = found->second;
  m.bytes -= copy.bytes;
  m.brought[bulk_thread / 32] = std::max(m.brought[bulk_thread / 32], clock);
  complete(m);
}

// to, from, bytes, mbarrier
void start_bulk(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    block& b = *w.in;
    const auto address = [&](const operand& o, s64 offset) {
      return (o.bytes == 8 ? w.at<u64>(o)[l] : u64{w.at<u32>(o)[l]}) + static_cast<u64>(offset);
    };
    const u32 to = static_cast<u32>(address(i.o[0], i.offset)), bytes = w.at<u32>(i.o[2])[l];
    const u64 from = address(i.o[1], static_cast<s32>(i.extra));
    if (bytes == 0 || bytes % 16 != 0 || to % 16 != 0 || from % 16 != 0) {
      fail(w, i, l, 716, "a bulk copy whose addresses and size are no multiples of 16");
    }
    if (to < shared_base || to + bytes > b.shared_end) {
      fail(w, i, l, 700, "a bulk copy to outside the block's shared memory");
    }
    const u32 place = place_of(w, i, i.o[3], l, static_cast<s32>(i.extra2));
    if (!valid(w, i, l, place).fenced) {
      note(w, i, l, "no fence behind mbarrier.init",
           "before the first bulk copy that reports to it");
    }
    std::uintptr_t host = 0;
    for (u32 n = 0; n < bytes; n += 16) {
      const auto* at = reach(w, i, l, space::global, from + n, 16, false);
      if (n == 0) host = reinterpret_cast<std::uintptr_t>(at);
    }
    bulk_overwrites(w, i, l, to, bytes);
    b.copies.push_back({to, host, bytes, place});
    if (!options().late) land(b, b.copies.size() - 1);
  });
}

}  // namespace

bool land_some_copy(block& b) {
  if (b.copies.empty()) return false;
  b.coin = b.coin * 1664525U + 1013904223U;
  land(b, (b.coin >> 16) % b.copies.size());
  return true;
}

void fence_mbarriers(warp& w, std::uint32_t lanes) {
  for (auto& [place, m] : w.in->mbarriers) {
    if (m.maker / 32 == w.index && (lanes >> (m.maker % 32) & 1) != 0) m.fenced = true;
  }
}

void note_copies_in_flight(const warp& w, const instruction& i) {
  if (w.in->copies.empty()) return;
  note(w, i, 0, "bulk copy in flight at the end", "copies that nobody waited for");
}

void decoder::memory_barrier() {
  if (c.k.arch < 90 || s.is("shared::cluster") || s.is("noComplete")) refuse();
  if (!s.is("b64") || !(s.is("shared") || s.is("shared::cta"))) refuse();
  if (s.op[1] == "init" || s.op[1] == "inval") {
    pool.push_back(c.base(P.at(0)));
    i.offset = P[0].offset;
    if (s.op[1] == "init") take(1, 4);
    finish(0);
    i.run = s.op[1] == "init" ? init : invalidate;
    return;
  }
  if (s.op[1] == "arrive" || s.op[1] == "expect_tx") {
    const bool only_bytes = s.op[1] == "expect_tx";
    const std::size_t address = only_bytes ? 0 : 1;
    if (only_bytes) {
      operand nothing;
      nothing.bank = operand::nowhere;
      pool.push_back(nothing);
    } else {
      take(0, 8);
    }
    pool.push_back(c.base(P.at(address)));
    i.offset = P[address].offset;
    if (P.size() > address + 1) take(address + 1, 4);
    i.extra = only_bytes ? 2 : s.is("expect_tx") ? 1 : 0;
    if (i.extra != 0 && P.size() != address + 2) refuse();
    finish(1);
    i.run = arrive_all;
    return;
  }
  if (s.op[1] != "test_wait" && s.op[1] != "try_wait") refuse();
  take(0, 0);
  pool.push_back(c.base(P.at(1)));
  i.offset = P[1].offset;
  take(2, s.is("parity") ? 4 : 8);
  i.extra = (s.is("parity") ? 1U : 0U) | (s.op[1] == "try_wait" ? 2U : 0U);
  finish(1);
  i.run = wait;
}

void decoder::copy_bulk() {
  if (c.k.arch < 90 || s.is("tensor") || s.is("multicast::cluster") || !s.is("global") ||
      !s.is("mbarrier::complete_tx::bytes") || P.size() != 4 || s.op[3].rfind("shared::", 0) != 0) {
    refuse();
  }
  pool.push_back(c.base(P[0]));
  pool.push_back(c.base(P[1]));
  take(2, 4);
  pool.push_back(c.base(P[3]));
  i.offset = P[0].offset;
  i.extra = static_cast<u32>(P[1].offset);
  i.extra2 = static_cast<u32>(P[3].offset);
  finish(0);
  i.run = start_bulk;
}

}  // namespace unmask::softgpu
