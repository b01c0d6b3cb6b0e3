// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Launches that may start before the one before them in their stream has ended (the launch attribute
// "programmatic stream serialization"): griddepcontrol.launch_dependents lets the next one start,
// griddepcontrol.wait waits for the end of those before (PTX ISA 9.7.13.13). They run here one after the other,
// so every result is right. What counts is that a thread touches nothing before its wait that a launch may
// still be at work on: each byte knows the last launches that wrote and read it.
//
// If every block lets dependents start before it waits itself, the launches before that one may be at work,
// too. If none waits, its end says nothing about them.
#include <algorithm>
#include <array>
#include <memory>
#include <unordered_map>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

struct last_launches {
  std::uint64_t wrote = 0, read = 0;
};
constexpr u64 page_bytes = 4096;
using page = std::array<last_launches, page_bytes>;

std::unordered_map<u64, std::unique_ptr<page>>& pages() {
  static auto* all = new std::unordered_map<u64, std::unique_ptr<page>>;
  return *all;
}

page& page_of(u64 address) {
  std::unique_ptr<page>& one = pages()[address / page_bytes];
  if (one == nullptr) one = std::make_unique<page>();
  return *one;
}

early_counts counts;

bool has_waited(const warp& w, int lane) {
  return w.now[launches_clock] != 0 || (w.dependency_lanes >> lane & 1) != 0;
}

void note_early(const warp& w, const instruction& i, int lane, u64 address, bool write, bool waited,
                const char* did) {
  const allocation* a = memory::all().find(address);
  const std::string place = a == nullptr
                                ? "of the host's memory"
                                : std::to_string(address - a->begin) + " of an allocation of " +
                                      std::to_string(a->end - a->begin);
  note(w, i, lane, waited ? "behind a launch that did not wait" : "before griddepcontrol.wait",
       std::string(write ? "writes" : "reads") + " byte " + place + ", which a launch " + did +
           " that may still be at work");
}

void trigger(warp& w, const instruction&) {
  block& b = *w.in;
  b.grid->triggers = true;
  if (b.triggered) return;
  b.triggered = true;
  if (b.waited) b.grid->triggered_late = true;
}

void wait(warp& w, const instruction&) {
  w.dependency_lanes |= w.active;
  w.in->waited = w.in->grid->waited = true;
  if ((w.lanes & ~(w.left | w.dependency_lanes)) == 0) w.now[launches_clock] = 1;
}

}  // namespace

const early_counts& counted_early() {
  return counts;
}

void share_dependency(warp& w) {
  if (w.dependency_lanes != 0) w.now[launches_clock] = 1;
}

void begin_early(grid_state& grid, const early_start& early) {
  grid.early = early;
  grid.followed_accesses = early.followed || !early.before_wait.empty();
  if (early.before_wait.empty()) pages().clear();  // nobody asks for older launches
}

void leave_to_next(const grid_state& grid, std::uint64_t launch, launches_before* before) {
  const launch_range &early = grid.early.before_wait, &late = grid.early.behind_wait;
  const launch_range& at_trigger = grid.triggered_late ? late : early;
  before->at_start = {at_trigger.empty() ? launch : at_trigger.first, launch + 1};
  before->at_end = grid.waited ? late : early;
  if (!early.empty()) {
    ++counts.launches;
    if (!grid.waited) ++counts.never_waited;
  }
  if (grid.early.followed && !grid.triggers) ++counts.before_silent;
}

// A library's kernel: it waited for all before it, and says nothing to those behind it.
void leave_to_next(const std::vector<library_access>& accesses, launches_before* before) {
  const u64 launch = next_launch();
  before->at_start = {launch, launch + 1};
  before->at_end = {};
  if (!before->early.followed) return;
  pages().clear();
  ++counts.before_silent;
  for (const library_access& a : accesses) {
    const auto first = reinterpret_cast<u64>(a.device);
    for (u64 byte = first; byte < first + a.bytes; ++byte) {
      last_launches& last = page_of(byte)[byte % page_bytes];
      (a.writes ? last.wrote : last.read) = launch;
    }
  }
}

void look_for_early_access(warp& w, const instruction& i, int lane, u64 address, u32 bytes,
                           bool write) {
  const bool waited = has_waited(w, lane);
  const early_start& early = w.in->grid->early;
  const launch_range& at_work = waited ? early.behind_wait : early.before_wait;
  page& one = page_of(address);  // an access is aligned: it lies in one page
  for (u64 byte = address; byte < address + bytes; ++byte) {
    last_launches& last = one[byte % page_bytes];
    if (at_work.holds(last.wrote)) {
      note_early(w, i, lane, byte, write, waited, "wrote");
    } else if (write && at_work.holds(last.read)) {
      note_early(w, i, lane, byte, write, waited, "read");
    }
    (write ? last.wrote : last.read) = w.in->launch;
  }
}

void decoder::dependency() {
  if (c.k.arch < 90) refuse();
  finish(0);
  if (s.is("launch_dependents")) {
    i.run = trigger;
  } else if (s.is("wait")) {
    i.run = wait;
  } else {
    refuse();
  }
}

}  // namespace unmask::softgpu
