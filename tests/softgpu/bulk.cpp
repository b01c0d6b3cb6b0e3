// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Copies by the bulk engine (PTX ISA 9.7.9.25.4 and 9.7.9.27): from global memory into the shared memory of one
// block or of several (multicast), from one block's into another's, and back to global memory; and st.async.
// What reports to an mbarrier lands whenever it likes from its issue on: sometimes at once, or when nothing else
// can go on. Stores to global memory happen as late as they may: at the wait for their group.
#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/softgpu/mbarrier.h"

namespace unmask::softgpu {
namespace {

// Bytes that have landed. What cp.async wrote is the thread's for the asynchronous proxy.
void mark(block& b, const bulk_copy::piece& p, int thread, u32 clock) {
  std::memset(b.flags.data() + p.to, block::written, p.bytes);
  if (options().races) {
    for (u32 word = p.to / 4; word <= (p.to + p.bytes - 1) / 4; ++word) {
      shared_record& r = b.records[word];
      r.atomic = false;
      r.rank = static_cast<u8>(b.rank);
      r.write_epoch = b.epoch;
      r.write_clock = clock;
      r.fence_clock = 0;
      r.writer = bulk_thread;
    }
  }
  if (!b.k->proxy_reads) return;
  std::fill_n(b.unfenced.begin() + p.to, p.bytes, static_cast<std::uint16_t>(thread + 1));
  if (thread >= 0) b.writes[static_cast<std::size_t>(thread)].emplace_back(p.to, p.bytes);
}

void land(block& b, std::size_t n) {
  const bulk_copy copy = std::move(b.copies[n]);
  b.copies.erase(b.copies.begin() + static_cast<std::ptrdiff_t>(n));
  for (const bulk_copy::piece& p : copy.pieces) {
    if (p.from != 0) {
      std::memcpy(b.shared.data() + p.to, reinterpret_cast<const void*>(p.from), p.bytes);
    } else {
      for (u32 at = 0; at < p.bytes; ++at) b.shared[p.to + at] = copy.fill[at % copy.fill.size()];
    }
  }
  const u32 clock = ++b.copy_clock;
  for (const bulk_copy::piece& p : copy.pieces) mark(b, p, copy.thread, clock);
  const auto found = b.mbarriers.find(copy.barrier);
  if (found == b.mbarriers.end()) return;  // note_copies_in_flight says so
  mbarrier& m = found->second;
  if (copy.thread < 0) {
    m.bytes -= copy.bytes;
  } else if (m.pending > 0) {
    --m.pending;
    learn(m.brought.own, copy.known);
  }
  u32& known = m.brought.own[bulk_thread / 32];
  known = std::max(known, clock);
  complete(m);
}

void check_size(const warp& w, const instruction& i, int lane, u64 to, u64 from, u32 bytes) {
  if (bytes == 0 || bytes % 16 != 0 || to % 16 != 0 || from % 16 != 0) {
    fail(w, i, lane, 716, "a bulk copy whose addresses and size are no multiples of 16");
  }
}

// The host's address of shared memory that the bulk engine is about to read.
std::uintptr_t source_of(warp& w, const instruction& i, int lane, u64 from, u32 bytes) {
  block& b = *w.in;
  if (from < shared_base || from + bytes > b.shared_end) {
    fail(w, i, lane, 700, "a bulk copy from outside the block's shared memory");
  }
  const u32 at = static_cast<u32>(from);
  for (u32 n = 0; n < bytes; n += 16) shared_read(w, i, lane, b, at + n, 16, true);
  return reinterpret_cast<std::uintptr_t>(b.shared.data() + at);
}

// to, from, bytes, mbarrier, [blocks]
template <bool from_shared, bool multicast>
void start_bulk(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u64 to = address_of(w, i.o[0], l, i.offset);
    const u64 from = address_of(w, i.o[1], l, static_cast<s32>(i.extra));
    const u32 bytes = w.at<u32>(i.o[2])[l];
    check_size(w, i, l, to, from, bytes);
    std::uintptr_t host = 0;
    if (from_shared) {
      host = source_of(w, i, l, from, bytes);
    } else {
      for (u32 n = 0; n < bytes; n += 16) {
        const auto* at = reach(w, i, l, space::global, from + n, 16, false);
        if (n == 0) host = reinterpret_cast<std::uintptr_t>(at);
      }
    }
    bulk_copy copy;
    copy.to = static_cast<u32>(to) & shared_mask;
    copy.bytes = bytes;
    copy.pieces.push_back({copy.to, bytes, host});
    const u32 blocks = multicast ? w.at<u16>(i.o[4])[l] : 0;
    issue_copy(w, i, l,
               {to, address_of(w, i.o[3], l, static_cast<s32>(i.extra2)), blocks, multicast},
               std::move(copy));
  });
}

// address, mbarrier, values...; extra: bytes of a value
void start_store(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u64 to = address_of(w, i.o[0], l, i.offset);
    bulk_copy copy;
    copy.to = static_cast<u32>(to) & shared_mask;
    copy.bytes = i.extra * (i.count - 2U);
    if (to % copy.bytes != 0) fail(w, i, l, 716, "st.async to an address that is not aligned");
    copy.data.resize(copy.bytes);
    for (u32 n = 2; n < i.count; ++n) {
      const auto* from = reinterpret_cast<const u8*>(
          i.extra == 8 ? static_cast<const void*>(w.at<u64>(i.o[n]) + l) : w.at<u32>(i.o[n]) + l);
      std::memcpy(copy.data.data() + (n - 2) * i.extra, from, i.extra);
    }
    const auto host = reinterpret_cast<std::uintptr_t>(copy.data.data());
    copy.pieces.push_back({copy.to, copy.bytes, host});
    issue_copy(w, i, l, {to, address_of(w, i.o[1], l, static_cast<s32>(i.extra2)), 0, false},
               std::move(copy));
  });
  ++w.now[static_cast<std::size_t>(w.index)];
}

// to, from, bytes: shared memory to global memory
void start_bulk_store(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u64 to = address_of(w, i.o[0], l, i.offset);
    const u64 from = address_of(w, i.o[1], l, static_cast<s32>(i.extra));
    const u32 bytes = w.at<u32>(i.o[2])[l];
    check_size(w, i, l, to, from, bytes);
    source_of(w, i, l, from, bytes);
    for (u32 n = 0; n < bytes; n += 16) {
      const auto* host = reach(w, i, l, space::global, to + n, 16, true);
      issue_store(w, l, {reinterpret_cast<std::uintptr_t>(host), static_cast<u32>(from) + n, 16});
    }
  });
}

void write_out(block& b, const bulk_store& s) {
  std::memcpy(reinterpret_cast<void*>(s.to), b.shared.data() + s.from, s.bytes);
  for (u32 n = s.from; n < s.from + s.bytes; ++n) {
    b.flags[n] &= static_cast<u8>(~block::read_by_copy);
  }
}

// An arrival of each thread when all its cp.async so far have landed. extra: 1 one that the count has
// (noinc), else it counts for itself.
void arrive_when_landed(warp& w, const instruction& i) {
  share_dependency(w);
  each_lane(w.active, [&](int l) {
    const mbarrier_place place = mbarrier_at(w, i, i.o[0], l, i.offset, false);
    mbarrier& m = valid_mbarrier(w, i, l, place);
    if (i.extra == 0) ++m.pending;
    bulk_copy copy;
    copy.barrier = place.at;
    copy.thread = w.thread(l);
    copy.known = w.now;
    copy.fill.assign(1, 0);
    const auto take = [&](std::vector<copy_request>& some) {
      for (const copy_request& c : some) {
        look_for_users(w, i, l, *w.in, c.to, c.bytes);
        if (c.valid > 0) copy.pieces.push_back({c.to, c.valid, c.from});
        if (c.valid < c.bytes) {
          copy.pieces.push_back({c.to + c.valid, u32{c.bytes} - c.valid, 0});
        }
      }
      some.clear();
    };
    for (auto& group : w.groups[l]) take(group);
    take(w.open[l]);
    w.in->copies.push_back(std::move(copy));
  });
  ++w.now[static_cast<std::size_t>(w.index)];
}

void commit_stores(warp& w, const instruction&) {
  each_lane(w.active, [&](int l) {
    w.store_groups[l].push_back(std::move(w.stores[l]));
    w.stores[l].clear();
  });
}

// extra: groups that may be left
void wait_for_stores(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    while (w.store_groups[l].size() > i.extra) {
      for (const bulk_store& s : w.store_groups[l].front()) write_out(*w.in, s);
      w.store_groups[l].pop_front();
    }
  });
}

}  // namespace

void issue_copy(warp& w, const instruction& i, int lane, const copy_target& target,
                bulk_copy copy) {
  const auto to = static_cast<u32>(target.to), barrier = static_cast<u32>(target.barrier);
  if (!target.multicast && to >> rank_shift != barrier >> rank_shift &&
      &block_at(w, i, lane, to) != &block_at(w, i, lane, barrier)) {
    fail(w, i, lane, 719, "a copy into one block that reports to an mbarrier of another");
  }
  const auto issue_to = [&](block& b, bulk_copy one) {
    if (one.to < shared_base || one.to + one.bytes > b.shared_end) {
      fail(w, i, lane, 700, "a bulk copy to outside the block's shared memory");
    }
    one.barrier = barrier & shared_mask;
    if (one.barrier % 8 != 0)
      fail(w, i, lane, 716, "an mbarrier whose address is no multiple of 8");
    if (!valid_mbarrier(w, i, lane, {&b, one.barrier}).fenced) {
      note(w, i, lane, "no fence behind mbarrier.init",
           "before the first bulk copy that reports to it");
    }
    bulk_overwrites(w, i, lane, b, one.to, one.bytes);
    b.copies.push_back(std::move(one));
    if (!options().late) land(b, b.copies.size() - 1);
  };
  if (!target.multicast) return issue_to(block_at(w, i, lane, to), std::move(copy));
  if (target.blocks == 0) fail(w, i, lane, 719, "a multicast to no block");
  each_lane(target.blocks,
            [&](int rank) { issue_to(peer_of(w, i, lane, static_cast<u32>(rank)), copy); });
}

void issue_store(warp& w, int lane, const bulk_store& s) {
  w.stores[lane].push_back(s);
  for (u32 n = s.from; n < s.from + s.bytes; ++n) w.in->flags[n] |= block::read_by_copy;
}

bool land_some_copy(block& b) {
  if (b.copies.empty()) return false;
  b.coin = b.coin * 1664525U + 1013904223U;
  land(b, (b.coin >> 16) % b.copies.size());
  return true;
}

void land_copies_of(block& b, int thread) {
  for (std::size_t n = 0; n < b.copies.size();) {
    if (b.copies[n].thread == thread) {
      land(b, n);
    } else {
      ++n;
    }
  }
}

void note_copies_in_flight(const warp& w, const instruction& i) {
  if (w.in->copies.empty()) return;
  note(w, i, 0, "bulk copy in flight at the end", "copies that nobody waited for");
}

void decoder::copy_bulk() {
  if (c.k.arch < 90 || s.is("prefetch")) refuse();
  if (s.is("commit_group")) {
    i.run = commit_stores;
    return finish(0);
  }
  if (s.is("wait_group")) {
    i.extra = static_cast<u32>(P.at(0).bits);
    i.run = wait_for_stores;
    return finish(0);
  }
  if (s.is("tensor")) return copy_tensor();
  const std::size_t hint = s.is("L2::cache_hint") ? 1 : 0;
  const bool multicast = s.is("multicast::cluster");
  const bool stores = s.op.size() > 3 && s.op[3] == "global";
  const bool from_shared = s.is("shared::cta") && !s.is("global");
  if (P.size() != (stores ? 3U : multicast ? 5U : 4U) + hint) refuse();
  if (stores ? !s.is("bulk_group") || !s.is("shared::cta")
             : !s.is("mbarrier::complete_tx::bytes")) {
    refuse();
  }
  if (!stores && (s.op[3].rfind("shared::", 0) != 0 || (multicast && from_shared))) refuse();
  pool.push_back(c.base(P[0]));
  pool.push_back(c.base(P[1]));
  take(2, 4);
  i.offset = P[0].offset;
  i.extra = static_cast<u32>(P[1].offset);
  if (stores || from_shared) c.k.proxy_reads = true;
  if (stores) {
    i.run = start_bulk_store;
    return finish(0);
  }
  pool.push_back(c.base(P[3]));
  i.extra2 = static_cast<u32>(P[3].offset);
  if (multicast) take(4, 2);
  finish(0);
  i.run = from_shared ? start_bulk<true, false>
          : multicast ? start_bulk<false, true>
                      : start_bulk<false, false>;
}

void decoder::arrive_behind_copies() {
  if (c.k.arch < 90 || !s.is("b64") || !(s.is("shared") || s.is("shared::cta"))) refuse();
  pool.push_back(c.base(P.at(0)));
  i.offset = P[0].offset;
  i.extra = s.is("noinc") ? 1 : 0;
  finish(0);
  i.run = arrive_when_landed;
}

// st.async: values to another block, which reports its bytes to an mbarrier there.
void decoder::store_async() {
  if (c.k.arch < 90 || op != "st" || !s.is("shared::cluster") || P.size() != 3 ||
      !s.is("mbarrier::complete_tx::bytes") || (t.bytes != 4 && t.bytes != 8)) {
    refuse();
  }
  const std::vector<ptx_operand> values =
      P[1].what == ptx_operand::form::vector ? P[1].parts : std::vector<ptx_operand>{P[1]};
  if (values.size() != (s.is("v4") ? 4U : s.is("v2") ? 2U : 1U)) refuse();
  pool.push_back(c.base(P[0]));
  pool.push_back(c.base(P[2]));
  for (const ptx_operand& v : values) pool.push_back(c.value(v, t.bytes));
  i.offset = P[0].offset;
  i.extra2 = static_cast<u32>(P[2].offset);
  i.extra = static_cast<u32>(t.bytes);
  finish(0);
  i.run = start_store;
}

void decoder::prefetch() {
  if (s.is("tensormap")) return prefetch_map();
  if (!s.is("L1") && !s.is("L2")) refuse();
  i.run = [](warp&, const instruction&) {};
  finish(0);
}

}  // namespace unmask::softgpu
