// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks of a launch that wait for each other: fence.acq_rel.gpu with an atomic behind it releases what a
// warp did and knows, ld.acquire.gpu takes it over (PTX ISA, "Memory Consistency Model": release and acquire
// patterns). A load that finds what it found before waits until something else has happened.
#include <algorithm>
#include <cstring>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

constexpr const char* name = "ld.acquire";
constexpr std::uint64_t block_mask = (1U << 24) - 1;

}  // namespace

void learn(block_clocks& mine, const block_clocks& others) {
  for (const auto& [block, known] : others) learn(mine[block], known);
}

void fence_for_blocks(warp& w) {
  if (!options().global_races) return;
  w.released = w.others;
  learn(w.released[name_of(*w.in)], w.now);
  ++w.now[static_cast<std::size_t>(w.index)];
}

void release_at(warp& w, std::uint64_t address) {
  if (options().global_races && !w.released.empty()) {
    learn(w.in->grid->released[address], w.released);
  }
}

bool knows_of(const warp& w, std::uint64_t block, int n, std::uint32_t clock) {
  const auto found = w.others.find(block);
  return found != w.others.end() && found->second[static_cast<std::size_t>(n)] >= clock;
}

std::uint64_t name_of(const block& b) {
  return b.number & block_mask;
}

bool knows(const warp& w, const block& of, int n, std::uint32_t clock) {
  if (&of != w.in) return knows_of(w, name_of(of), n, clock);
  return w.now[static_cast<std::size_t>(n)] >= clock;
}

bool asks_again(const warp& w) {
  return w.is == warp::state::blocked && std::strcmp(w.blocked_by, name) == 0;
}

// d, address: 4 bytes of global memory
void acquire_load(warp& w, const instruction& i) {
  each_lane(w.active, [&](int l) {
    const u64 at = w.at<u64>(i.o[1])[l] + static_cast<u64>(i.offset);
    u32 value;
    std::memcpy(&value, reach(w, i, l, space::global, at, 4, false, true), 4);
    const bool same =
        w.asked.by == static_cast<int>(i.index) && w.asked.address == at && w.asked.value == value;
    w.asked = {static_cast<int>(i.index), at, value};
    if (same) {
      w.is = warp::state::blocked;
      w.blocked_by = name;
      return;
    }
    w.at<u32>(i.o[0])[l] = value;
    const auto found = w.in->grid->released.find(at);
    if (found != w.in->grid->released.end()) learn(w.others, found->second);
  });
}

bool wake(const std::vector<cluster*>& running) {
  bool some = false;
  for (const cluster* c : running) {
    for (block* b : c->blocks) {
      for (warp& w : b->warps) {
        if (!asks_again(w)) continue;
        w.asked.by = -1;
        some = true;
      }
    }
  }
  return some && ++running.front()->blocks.front()->grid->wakes <= 2;
}

}  // namespace unmask::softgpu
