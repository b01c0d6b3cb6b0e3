// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Barriers that are named by number, at which warps wait (bar.sync) or only arrive (bar.arrive), and
// registers that warpgroups give to each other (setmaxnreg). PTX ISA 9.7.13.1 and 9.7.19.5.
#include <algorithm>
#include <bit>
#include <cstdio>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {
namespace {

constexpr int launch_failure = 719;

bool waits_at(const warp& w, std::size_t id) {
  return w.is == warp::state::waiting && w.barrier == static_cast<int>(id);
}

std::uint32_t threads_at(const block& b, std::size_t id) {
  const auto waiting =
      std::ranges::count_if(b.warps, [&](const warp& w) { return waits_at(w, id); });
  return static_cast<std::uint32_t>(waiting) * 32 + b.barriers[id].arrived;
}

// Complete: as many threads have come as it names, or all that have not left the block.
bool complete(const block& b, std::size_t id) {
  const std::uint32_t needed = b.barriers[id].threads;
  if (needed != 0) return threads_at(b, id) >= needed;
  return std::ranges::any_of(b.warps, [&](const warp& w) { return waits_at(w, id); }) &&
         std::ranges::all_of(
             b.warps, [&](const warp& w) { return w.is == warp::state::done || waits_at(w, id); });
}

void open(block& b, std::size_t id) {
  // Who has left came to no barrier with a count.
  const bool counted = b.barriers[id].threads != 0;
  bool all = true;
  for (warp& w : b.warps) {
    all = all && (waits_at(w, id) || (w.is == warp::state::done && !counted));
    if (!waits_at(w, id)) continue;
    w.is = warp::state::ready;
    learn(w.now, b.barriers[id].brought);
    learn(w.others, b.barriers[id].others);
  }
  b.barriers[id] = {};
  ++b.epoch;
  if (all) b.common_epoch = b.epoch;
}

// What the warp did so far is known to who passes the barrier, what it does from here on is not.
void bring(warp& w, std::size_t id) {
  share_dependency(w);
  learn(w.in->barriers[id].brought, w.now);
  learn(w.in->barriers[id].others, w.others);
  ++w.now[static_cast<std::size_t>(w.index)];
}

// The number of the barrier, and how many threads open it, as all lanes name them.
std::size_t join(warp& w, const instruction& i, std::uint32_t lanes, const char* what) {
  const std::uint32_t there = w.lanes & ~w.left;
  const int first = std::countr_zero(lanes);
  char text[128];
  if (lanes != there) {
    std::snprintf(text, sizeof text, "%s by lanes %08x of %08x", what, lanes, there);
    fail(w, i, first, launch_failure, text);
  }
  const std::uint32_t id = w.at<std::uint32_t>(i.o[0])[first];
  const std::uint32_t threads = i.count > 1 ? w.at<std::uint32_t>(i.o[1])[first] : 0;
  if (id > 15 || threads % 32 != 0 || threads > w.in->warps.size() * 32) {
    std::snprintf(text, sizeof text, "%s of barrier %u by %u threads", what, id, threads);
    fail(w, i, first, launch_failure, text);
  }
  block& b = *w.in;
  // It opened when its last thread came, at the latest.
  if (b.barriers[id].threads != 0 && complete(b, id)) open(b, id);
  if (threads_at(b, id) != 0 && b.barriers[id].threads != threads) {
    std::snprintf(text, sizeof text, "%u threads, and %u by those before", threads,
                  b.barriers[id].threads);
    note(w, i, first, "barrier of two counts", text);
  }
  b.barriers[id].threads = threads;
  return id;
}

// Sometimes as soon as its last thread has come, else once no other warp can run: who passes early meets
// what those before have not finished, who passes late what those behind have begun.
void open_soon(block& b, std::size_t id) {
  b.coin = b.coin * 1664525U + 1013904223U;
  if (b.barriers[id].threads != 0 && (b.coin >> 30 & 1) != 0 && complete(b, id)) open(b, id);
}

// All four warps of a warpgroup must execute the same moves.
void compare_moves(warp& w, const instruction& i) {
  const std::size_t group = static_cast<std::size_t>(w.index) / 4 * 4;
  auto& moves = w.in->register_moves[w.index];
  moves.push_back(i.index);
  for (std::size_t n = group; n < group + 4 && n < w.in->warps.size(); ++n) {
    const auto& others = w.in->register_moves[n];
    if (others.size() < moves.size() || others[moves.size() - 1] == i.index) continue;
    note(w, i, 0, "setmaxnreg differs between warps", "of one warpgroup");
  }
}

void note_direction(const warp& w, const instruction& i) {
  note(w, i, 0, "setmaxnreg",
       "to " + std::to_string(i.extra) + " registers of " + std::to_string(w.registers));
}

}  // namespace

void learn(clocks& mine, const clocks& others) {
  for (std::size_t n = 0; n < mine.size(); ++n) mine[n] = std::max(mine[n], others[n]);
}

void wait_at_barrier(warp& w, const instruction& i, std::uint32_t lanes) {
  const std::size_t id = join(w, i, lanes, "bar.sync");
  w.is = warp::state::waiting;
  w.barrier = static_cast<int>(id);
  ++w.turn;
  bring(w, id);
  open_soon(*w.in, id);
}

void arrive_at_barrier(warp& w, const instruction& i) {
  const std::size_t id = join(w, i, w.active, "bar.arrive");
  w.in->barriers[id].arrived += 32;
  bring(w, id);
  open_soon(*w.in, id);
}

bool open_barrier(block& b) {
  for (const warp& w : b.warps) {
    if (w.is != warp::state::waiting) continue;
    const auto id = static_cast<std::size_t>(w.barrier);
    if (!complete(b, id)) continue;
    open(b, id);
    return true;
  }
  return false;
}

// A warp has 32 threads' registers; ptxas' count is that of the launch.
void give_registers(warp& w, const instruction& i) {
  compare_moves(w, i);
  if (w.registers == 0) return;
  if (static_cast<int>(i.extra) > w.registers) return note_direction(w, i);
  w.in->free_registers += std::int64_t{32} * (w.registers - static_cast<int>(i.extra));
  w.registers = static_cast<int>(i.extra);
}

void take_registers(warp& w, const instruction& i) {
  const std::int64_t more = std::int64_t{32} * (static_cast<int>(i.extra) - w.registers);
  if (w.registers != 0 && more > w.in->free_registers) {
    w.is = warp::state::blocked;
    w.blocked_by = "setmaxnreg.inc";
    return;
  }
  compare_moves(w, i);
  if (w.registers == 0) return;
  if (more < 0) return note_direction(w, i);
  w.in->free_registers -= more;
  w.registers = static_cast<int>(i.extra);
}

std::string where_warps_wait(const cluster& c) {
  std::string text = "warps wait for ever:";
  for (const block* b : c.blocks) {
    if (b->ended) continue;
    if (c.blocks.size() > 1) text += " block " + std::to_string(b->rank) + ":";
    for (const warp& w : b->warps) {
      if (w.is == warp::state::done) continue;
      const bool blocked = w.is == warp::state::blocked;
      text += " " + std::to_string(w.index) + " at " +
              (blocked ? w.blocked_by : "barrier " + std::to_string(w.barrier));
      const auto found = b->mbarriers.find(w.blocked_place);
      if (blocked && w.blocked_place != 0 && found != b->mbarriers.end()) {
        text += " (" + std::to_string(found->second.pending) + " arrivals and " +
                std::to_string(found->second.bytes) + " bytes to come)";
      }
      text += ",";
    }
  }
  text.pop_back();
  return text;
}

}  // namespace unmask::softgpu
