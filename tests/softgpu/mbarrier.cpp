// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// mbarrier: barriers in shared memory that count arrivals and the bytes of copies, phase after phase (PTX ISA
// 9.7.13.15). What a warp of another block releases at one is known to who waits only if both name the
// cluster's scope: a block's own is what is meant without.
#include "tests/softgpu/mbarrier.h"

#include <algorithm>
#include <bit>

namespace unmask::softgpu {
namespace {

constexpr u32 most_arrivals = (1U << 20) - 1;
constexpr s64 most_bytes = (s64{1} << 20) - 1;

// Of instruction::extra.
constexpr u32 counts_bytes = 1, nobody_arrives = 2, bytes_came = 4, leaves_for_good = 8,
              of_cluster = 16, cluster_scope = 32;
constexpr u32 by_parity = 1, may_wait = 2;

void hand_on(mbarrier& m, const warp& w, bool remote, bool to_cluster) {
  if (!remote) {
    learn(m.brought.own, w.now);
    learn(m.brought.others, w.others);
  } else if (to_cluster) {
    learn(m.brought.peers[name_of(*w.in)], w.now);
    learn(m.brought.peers, w.others);
  }
}

void change_bytes(const warp& w, const instruction& i, int lane, mbarrier& m, s64 bytes) {
  m.bytes += bytes;
  if (m.bytes > most_bytes || m.bytes < -most_bytes) {
    fail(w, i, lane, 719, "an mbarrier of more than 2^20 - 1 bytes");
  }
}

void arrive(warp& w, const instruction& i, int lane, mbarrier& m, u32 arrivals, bool remote) {
  if (arrivals == 0 || arrivals > m.pending) {
    fail(w, i, lane, 719,
         std::to_string(arrivals) + " arrivals at an mbarrier that waits for " +
             std::to_string(m.pending));
  }
  hand_on(m, w, remote, (i.extra & cluster_scope) != 0);
  m.pending -= arrivals;
  if ((i.extra & leaves_for_good) != 0) m.count -= arrivals;
  complete(m);
}

void init(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u32 place = mbarrier_at(w, i, i.o[0], l, i.offset, false).at;
    const u32 count = w.at<u32>(i.o[1])[l];
    if (count == 0 || count > most_arrivals) fail(w, i, l, 719, "the count of an mbarrier");
    shared_written(w, i, l, *w.in, place, 8);
    mbarrier m;
    m.count = m.pending = count;
    m.maker = w.thread(l);
    m.made = w.now[static_cast<std::size_t>(w.index)];
    w.in->mbarriers[place] = m;
  });
}

void invalidate(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const mbarrier_place place = mbarrier_at(w, i, i.o[0], l, i.offset, false);
    valid_mbarrier(w, i, l, place);
    w.in->mbarriers.erase(place.at);
  });
}

// state, address, [count or bytes]
void arrive_all(warp& w, const instruction& i) {
  share_dependency(w);
  each_lane(w.active, [&](int l) {
    const mbarrier_place place =
        mbarrier_at(w, i, i.o[1], l, i.offset, (i.extra & of_cluster) != 0);
    mbarrier& m = valid_mbarrier(w, i, l, place);
    const u32 third = i.count > 2 ? w.at<u32>(i.o[2])[l] : 1;
    if (i.o[0].bank != operand::nowhere) w.at<u64>(i.o[0])[l] = m.phase;
    if ((i.extra & counts_bytes) != 0) change_bytes(w, i, l, m, third);
    if ((i.extra & bytes_came) != 0) {
      change_bytes(w, i, l, m, -s64{third});
      complete(m);
    }
    if ((i.extra & nobody_arrives) != 0) return;
    arrive(w, i, l, m, (i.extra & counts_bytes) != 0 ? 1 : third, place.b != w.in);
  });
  ++w.now[static_cast<std::size_t>(w.index)];
}

// predicate, address, parity or state
void wait(warp& w, const instruction& i) {
  u32 done = 0;
  each_lane(w.active, [&](int l) {
    const mbarrier_place place = mbarrier_at(w, i, i.o[1], l, i.offset, false);
    const mbarrier& m = valid_mbarrier(w, i, l, place);
    w.blocked_place = place.at;
    const bool passed = (i.extra & by_parity) != 0 ? (m.phase & 1) != (w.at<u32>(i.o[2])[l] & 1)
                                                   : m.phase > w.at<u64>(i.o[2])[l];
    if (!passed) return;
    learn(w.now, m.passed.own);
    learn(w.others, m.passed.others);
    if ((i.extra & cluster_scope) != 0) learn(w.others, m.passed.peers);
    done |= 1U << l;
  });
  block& b = *w.in;
  b.coin = b.coin * 1664525U + 1013904223U;
  const bool times_out = w.waited_at != static_cast<int>(i.index) && (b.coin >> 30 & 1) != 0;
  if (done != w.active && (i.extra & may_wait) != 0 && !times_out) {
    w.is = warp::state::blocked;
    w.blocked_by = "mbarrier.try_wait";
    return;
  }
  // It may say no once, for no reason, and then waits.
  w.waited_at = done == w.active ? -1 : static_cast<int>(i.index);
  u32* p = w.at<u32>(i.o[0]);
  *p = (*p & ~w.active) | done;
}

}  // namespace

mbarrier_place mbarrier_at(warp& w, const instruction& i, const operand& o, int lane, s64 offset,
                           bool cluster) {
  const u32 address = static_cast<u32>(address_of(w, o, lane, offset));
  block& b = cluster ? block_at(w, i, lane, address) : *w.in;
  const u32 place = cluster ? address & shared_mask : address;
  if (place % 8 != 0) fail(w, i, lane, 716, "an mbarrier whose address is no multiple of 8");
  if (place < shared_base || place + 8 > b.shared_end) {
    fail(w, i, lane, 700, "an mbarrier outside the block's shared memory");
  }
  return {&b, place};
}

// Its init is known by a barrier, or by a fence for it and a barrier of the cluster, whatever that one's semantics.
mbarrier& valid_mbarrier(warp& w, const instruction& i, int lane, const mbarrier_place& place) {
  const auto found = place.b->mbarriers.find(place.at);
  if (found == place.b->mbarriers.end()) {
    fail(w, i, lane, 719,
         "shared byte " + std::to_string(place.at - shared_base) +
             " is no mbarrier: nobody made it");
  }
  mbarrier& m = found->second;
  const bool own = place.b == w.in && m.maker / 32 == w.index;
  if (!own && !knows(w, *place.b, m.maker / 32, m.made) &&
      !(m.fenced && w.cluster_passed > m.fenced_phase)) {
    note(w, i, lane, "mbarrier used before its init is known",
         "thread " + std::to_string(m.maker) + " made it, with no barrier between");
  }
  return m;
}

void complete(mbarrier& m) {
  if (m.pending != 0 || m.bytes != 0) return;
  ++m.phase;
  m.pending = m.count;
  m.passed = std::move(m.brought);
  m.brought = {};
}

void fence_mbarriers(warp& w, std::uint32_t lanes) {
  for (auto& [place, m] : w.in->mbarriers) {
    if (m.maker / 32 == w.index && (lanes >> (m.maker % 32) & 1) != 0 && !m.fenced) {
      m.fenced = true;
      m.fenced_phase = w.in->with->phase;
    }
  }
}

void decoder::memory_barrier() {
  if (c.k.arch < 90 || s.is("noComplete") || s.op.size() < 2) refuse();
  const bool cluster = s.is("shared::cluster");
  if (!s.is("b64") || !(s.is("shared") || s.is("shared::cta") || cluster)) refuse();
  const std::string& does = s.op[1];
  const u32 scope = s.is("cluster") ? cluster_scope : 0;
  if (does == "init" || does == "inval") {
    if (cluster) refuse();
    pool.push_back(c.base(P.at(0)));
    i.offset = P[0].offset;
    if (does == "init") take(1, 4);
    finish(0);
    i.run = does == "init" ? init : invalidate;
    return;
  }
  if (does == "test_wait" || does == "try_wait") {
    if (cluster) refuse();
    take(0, 0);
    pool.push_back(c.base(P.at(1)));
    i.offset = P[1].offset;
    take(2, s.is("parity") ? 4 : 8);
    i.extra = (s.is("parity") ? by_parity : 0U) | (does == "try_wait" ? may_wait : 0U) | scope;
    finish(1);
    i.run = wait;
    return;
  }
  const bool only_bytes = does == "expect_tx" || does == "complete_tx";
  if (!only_bytes && does != "arrive" && does != "arrive_drop") refuse();
  const std::size_t address = only_bytes ? 0 : 1;
  if (only_bytes) {
    operand nothing;
    nothing.bank = operand::nowhere;
    pool.push_back(nothing);
  } else {
    take(0, 8);
    if (cluster && pool.back().bank != operand::nowhere) refuse();  // it returns no state
  }
  pool.push_back(c.base(P.at(address)));
  i.offset = P[address].offset;
  if (P.size() > address + 1) take(address + 1, 4);
  i.extra = (only_bytes ? nobody_arrives : 0U) | (s.is("expect_tx") ? counts_bytes : 0U) |
            (does == "complete_tx" ? bytes_came : 0U) |
            (does == "arrive_drop" ? leaves_for_good : 0U) | (cluster ? of_cluster : 0U) | scope;
  if ((i.extra & (counts_bytes | bytes_came)) != 0 && P.size() != address + 2) refuse();
  finish(1);
  i.run = arrive_all;
}

}  // namespace unmask::softgpu
