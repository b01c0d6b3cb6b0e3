// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks of a cluster: addresses of each other's shared memory (mapa), and the barrier of all their threads
// (barrier.cluster). PTX ISA 9.7.13.4, 9.7.9.23 and "Cluster of Cooperative Thread Arrays". A block's memory is
// there from its start to its end: a peer may touch it only if a barrier says that it has started, and it may
// end only if a barrier says that its peers are through.
#include <algorithm>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

constexpr int launch_failure = 719, illegal_address = 700;

// The last access of each warp is enough: clocks only grow.
void remember(const warp& w, const instruction& i, int lane, block& peer) {
  const u32 clock = w.now[static_cast<std::size_t>(w.index)];
  for (peer_access& a : peer.touched) {
    if (a.rank == w.in->rank && a.warp == w.index) {
      a = {a.rank, clock, a.warp, lane, &i};
      return;
    }
  }
  peer.touched.push_back({w.in->rank, clock, w.index, lane, &i});
}

// All threads that have not left came to the barrier.
void complete(cluster& c) {
  bool some = false;
  for (const block* b : c.blocks) {
    for (const warp& w : b->warps) {
      some = some || w.cluster_arrived != 0;
      if ((w.lanes & ~(w.cluster_arrived | w.left)) != 0) return;
    }
  }
  if (!some) return;
  ++c.phase;
  c.passed = std::move(c.brought);
  c.brought.clear();
  for (block* b : c.blocks) {
    ++b->epoch;
    for (warp& w : b->warps) w.cluster_arrived = 0;
  }
}

// extra: 1 releases
void arrive(warp& w, const instruction& i) {
  cluster& c = *w.in->with;
  if ((w.cluster_waits & w.active) != 0) {
    fail(w, i, std::countr_zero(w.cluster_waits & w.active), launch_failure,
         "barrier.cluster.arrive twice with no wait between");
  }
  w.cluster_arrived |= w.active;
  w.cluster_waits |= w.active;
  w.cluster_phase = c.phase;
  if (i.extra != 0) {
    learn(c.brought[name_of(*w.in)], w.now);
    learn(c.brought, w.others);
    ++w.now[static_cast<std::size_t>(w.index)];
  }
}

void wait(warp& w, const instruction& i) {
  cluster& c = *w.in->with;
  if ((w.active & ~w.cluster_waits) != 0) {
    fail(w, i, std::countr_zero(w.active & ~w.cluster_waits), launch_failure,
         "barrier.cluster.wait by a thread that did not arrive");
  }
  if (c.phase == w.cluster_phase) complete(c);
  if (c.phase == w.cluster_phase) {
    w.is = warp::state::blocked;
    w.blocked_by = "barrier.cluster.wait";
    w.blocked_place = 0;
    return;
  }
  w.cluster_waits &= ~w.active;
  w.cluster_passed = w.cluster_phase + 1;
  ++w.turn;
  learn(w.others, c.passed);
  const auto own = c.passed.find(name_of(*w.in));
  if (own == c.passed.end()) return;
  clocks known = own->second;
  known[launches_clock] = 0;  // each block waits for itself
  learn(w.now, known);
}

}  // namespace

block& peer_of(warp& w, const instruction& i, int lane, u32 rank) {
  cluster& c = *w.in->with;
  if (rank >= c.blocks.size()) {
    fail(w, i, lane, illegal_address,
         "block " + std::to_string(rank) + " of a cluster of " + std::to_string(c.blocks.size()));
  }
  block& peer = *c.blocks[rank];
  if (&peer == w.in) return peer;
  const std::string name = "shared memory of the cluster's block " + std::to_string(rank);
  if (peer.ended) {
    fail(w, i, lane, illegal_address, name + ", which has ended: no barrier keeps it");
  }
  if (w.cluster_passed == 0 && !w.others.contains(name_of(peer))) {
    note(w, i, lane, "peer that may not have started",
         name + ", with no barrier of the cluster before");
  }
  remember(w, i, lane, peer);
  return peer;
}

block& block_at(warp& w, const instruction& i, int lane, u64 address) {
  const auto rank = static_cast<u32>(address >> rank_shift);
  return rank == 0 ? *w.in : peer_of(w, i, lane, rank - 1);
}

void end_of_block(block& b) {
  b.ended = true;
  if (!b.triggered && b.waited) b.grid->triggered_late = true;
  for (const auto& [place, m] : b.mbarriers) {
    if (m.bytes == 0) continue;
    note(b.warps.front(), b.k->code.back(), 0, "bytes of an mbarrier do not add up",
         std::to_string(m.bytes) + " are to come at shared byte " +
             std::to_string(place - shared_base) + " when the block ends");
  }
  for (const peer_access& a : b.touched) {
    const bool known = std::ranges::any_of(
        b.warps, [&](const warp& w) { return knows(w, *b.with->blocks[a.rank], a.warp, a.clock); });
    if (known) continue;
    note(b.with->blocks[a.rank]->warps[static_cast<std::size_t>(a.warp)], *a.i, a.lane,
         "peer that may have ended",
         "no barrier keeps the cluster's block " + std::to_string(b.rank) + " until this access");
  }
}

void decoder::cluster_barrier() {
  if (c.k.arch < 90 || !P.empty()) refuse();
  i.aligned = s.is("aligned");
  finish(0);
  if (s.is("arrive")) {
    i.extra = s.is("relaxed") ? 0 : 1;
    i.run = arrive;
  } else if (s.is("wait")) {
    i.run = wait;
  } else {
    refuse();
  }
}

// d, address, rank: the same place of another block's shared memory, for shared::cluster or generic.
void decoder::map_address() {
  if (c.k.arch < 90 || t.kind != 'u') refuse();
  const bool generic = !s.is("shared::cluster");
  if (generic && t.bytes != 8) refuse();
  take(0, t.bytes);
  take(1, t.bytes);
  take(2, 4);
  i.extra = generic ? 1 : 0;
  finish(1);
  i.run = [](warp& w, const instruction& x) {
    each_lane(w.active, [&](int l) {
      const u64 from = x.o[1].bytes == 8 ? w.at<u64>(x.o[1])[l] : w.at<u32>(x.o[1])[l];
      const u32 rank = w.at<u32>(x.o[2])[l];
      if (rank >= w.in->with->blocks.size()) {
        fail(w, x, l, launch_failure,
             "mapa to block " + std::to_string(rank) + " of a cluster of " +
                 std::to_string(w.in->with->blocks.size()));
      }
      if (x.extra != 0 && from >> 40 != shared_window >> 40) {
        fail(w, x, l, launch_failure, "mapa of an address that is not shared memory's");
      }
      const u64 to = (u64{rank} + 1) << rank_shift | (from & shared_mask) |
                     (x.extra != 0 ? shared_window : u64{0});
      if (x.o[0].bytes == 8) {
        w.at<u64>(x.o[0])[l] = to;
      } else {
        w.at<u32>(x.o[0])[l] = static_cast<u32>(to);
      }
    });
  };
}

// d, address: the rank of the block whose shared memory it is.
void decoder::find_rank() {
  if (c.k.arch < 90) refuse();
  take(0, 4);
  take(1, s.is("u64") || !s.is("shared::cluster") ? 8 : 4);
  finish(1);
  i.run = [](warp& w, const instruction& x) {
    each_lane(w.active, [&](int l) {
      const u64 at = x.o[1].bytes == 8 ? w.at<u64>(x.o[1])[l] : w.at<u32>(x.o[1])[l];
      const auto rank = static_cast<u32>(at) >> rank_shift;
      w.at<u32>(x.o[0])[l] = rank == 0 ? w.in->rank : rank - 1;
    });
  };
}

}  // namespace unmask::softgpu
