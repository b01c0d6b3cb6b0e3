// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/machine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>

namespace unmask::softgpu {
namespace {

constexpr int launch_timeout = 702;
constexpr std::uint64_t most_together = 6;      // clusters, if they wait for each other
constexpr std::uint64_t most_turns = 50000000;  // of a block's warps: more than any kernel needs

// ---- a warp ----

void settle(warp& w) {
  while (!w.ways.empty() && (w.ways.back().lanes == 0 || w.ways.back().pc == w.ways.back().meet)) {
    w.ways.pop_back();
  }
}

void part(warp& w, const instruction& i, std::uint32_t taken, std::uint32_t other,
          std::mt19937& random) {
  frame& f = w.ways.back();
  int meet = i.meet;
  const int next = f.pc + 1;
  if (meet < 0 || meet == f.meet) {
    meet = f.meet;
    w.ways.pop_back();
  } else {
    f.pc = meet;
  }
  const frame a{i.target, meet, taken}, b{next, meet, other};
  const bool first = (random() & 1) != 0;
  w.ways.push_back(first ? a : b);
  w.ways.push_back(first ? b : a);
}

void leave(warp& w, std::uint32_t lanes) {
  w.left |= lanes;
  for (frame& any : w.ways) any.lanes &= ~lanes;
}

void take_branch(warp& w, const instruction& i, std::uint32_t lanes, std::mt19937& random) {
  frame& f = w.ways.back();
  const std::uint32_t other = f.lanes & ~lanes;
  if (lanes == 0) {
    ++f.pc;
  } else if (other == 0) {
    f.pc = i.target;
  } else {
    part(w, i, lanes, other, random);
  }
}

// Registers of a wgmma that has not been waited for: its sums are nobody else's, and what it reads
// of a may not be written (PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions").
void guard_registers_in_flight(warp& w, const instruction& i) {
  for (int n = 0; n < i.count; ++n) {
    const operand& o = i.o[n];
    if (o.bank != operand::registers || o.bytes == 0) continue;
    const std::uint8_t busy = w.busy[o.at / 64];
    const bool sum = (busy & 1) != 0, writes = n < i.outputs;
    if (busy != 0 && (sum || writes)) {
      note(w, i, 0, "register of a wgmma in flight",
           std::string(writes ? "writes" : "reads") + " operand " + std::to_string(n) +
               (sum ? ", a sum" : ", a fragment of a"));
    }
    w.touched[o.at / 64] = w.clock;
  }
}

void execute(warp& w, const kernel& k, const instruction& i, std::uint32_t lanes) {
  w.active = lanes;
  if (i.aligned && lanes != 0xFFFFFFFFU) {
    char text[96];
    std::snprintf(text, sizeof text, "an aligned instruction by lanes %08x alone", lanes);
    note(w, i, std::countr_zero(lanes), "divergent collective", text);
  }
  if (k.has_wgmma) {
    ++w.clock;
    if (i.register_use) guard_registers_in_flight(w, i);
  }
  i.run(w, i);
}

std::uint32_t guarded(const warp& w, const instruction& i, std::uint32_t lanes) {
  if (!i.guarded) return lanes;
  const std::uint32_t p = *reinterpret_cast<const std::uint32_t*>(w.base[0] + i.guard);
  return lanes & (i.guard_negated ? ~p : p);
}

// Until a barrier, the end, or as many instructions as are allowed.
void run_warp(warp& w, kernel& k, int allowed, std::mt19937& random) {
  const int count = static_cast<int>(k.code.size());
  while (allowed-- > 0) {
    settle(w);
    if (w.ways.empty()) {
      w.is = warp::state::done;
      return;
    }
    frame& f = w.ways.back();
    if (f.pc >= count) {
      leave(w, f.lanes);
      continue;
    }
    const instruction& i = k.code[static_cast<std::size_t>(f.pc)];
    const std::uint32_t lanes = guarded(w, i, f.lanes);
    ++k.warp_instructions;
    if (lanes != 0) {
      ++k.executed[i.index];
      k.lane_instructions += static_cast<std::uint64_t>(std::popcount(lanes));
    }
    if (i.what == instruction::sort::branch) {
      take_branch(w, i, lanes, random);
      continue;
    }
    ++f.pc;
    if (lanes == 0) continue;
    if (i.what == instruction::sort::leave) {
      leave(w, lanes);
    } else if (i.what == instruction::sort::barrier) {
      wait_at_barrier(w, i, lanes);
      return;
    } else {
      execute(w, k, i, lanes);
      if (w.is == warp::state::blocked) {
        --w.ways.back().pc;
        return;
      }
    }
  }
}

// By x, y or z: 0, 1, 2.
std::uint32_t part_of(const dim3_t& d, int n) {
  return n == 0 ? d.x : n == 1 ? d.y : d.z;
}
template <int n>
std::uint32_t place_in_cluster(const block& b, std::uint32_t, int) {
  return part_of(b.place, n) % part_of(b.shape.cluster, n);
}
template <int n>
std::uint32_t cluster_place(const block& b, std::uint32_t, int) {
  return part_of(b.place, n) / part_of(b.shape.cluster, n);
}
template <int n>
std::uint32_t clusters_of_grid(const block& b, std::uint32_t, int) {
  return part_of(b.shape.grid, n) / part_of(b.shape.cluster, n);
}

using special_value = std::uint32_t (*)(const block& b, std::uint32_t thread, int warp);
const std::map<std::string, special_value>& special_registers() {
  static const std::map<std::string, special_value> all = {
      {"%tid.x", [](const block& b, std::uint32_t t, int) { return t % b.shape.threads.x; }},
      {"%tid.y", [](const block& b, std::uint32_t t,
                    int) { return t / b.shape.threads.x % b.shape.threads.y; }},
      {"%tid.z", [](const block& b, std::uint32_t t,
                    int) { return t / b.shape.threads.x / b.shape.threads.y; }},
      {"%ntid.x", [](const block& b, std::uint32_t, int) { return b.shape.threads.x; }},
      {"%ntid.y", [](const block& b, std::uint32_t, int) { return b.shape.threads.y; }},
      {"%ntid.z", [](const block& b, std::uint32_t, int) { return b.shape.threads.z; }},
      {"%ctaid.x", [](const block& b, std::uint32_t, int) { return b.place.x; }},
      {"%ctaid.y", [](const block& b, std::uint32_t, int) { return b.place.y; }},
      {"%ctaid.z", [](const block& b, std::uint32_t, int) { return b.place.z; }},
      {"%nctaid.x", [](const block& b, std::uint32_t, int) { return b.shape.grid.x; }},
      {"%nctaid.y", [](const block& b, std::uint32_t, int) { return b.shape.grid.y; }},
      {"%nctaid.z", [](const block& b, std::uint32_t, int) { return b.shape.grid.z; }},
      {"%cluster_ctaid.x", place_in_cluster<0>},
      {"%cluster_ctaid.y", place_in_cluster<1>},
      {"%cluster_ctaid.z", place_in_cluster<2>},
      {"%clusterid.x", cluster_place<0>},
      {"%clusterid.y", cluster_place<1>},
      {"%clusterid.z", cluster_place<2>},
      {"%nclusterid.x", clusters_of_grid<0>},
      {"%nclusterid.y", clusters_of_grid<1>},
      {"%nclusterid.z", clusters_of_grid<2>},
      {"%cluster_nctaid.x", [](const block& b, std::uint32_t, int) { return b.shape.cluster.x; }},
      {"%cluster_nctaid.y", [](const block& b, std::uint32_t, int) { return b.shape.cluster.y; }},
      {"%cluster_nctaid.z", [](const block& b, std::uint32_t, int) { return b.shape.cluster.z; }},
      {"%cluster_ctarank", [](const block& b, std::uint32_t, int) { return b.rank; }},
      {"%cluster_nctarank", [](const block& b, std::uint32_t,
                               int) { return static_cast<std::uint32_t>(b.with->blocks.size()); }},
      {"%laneid", [](const block&, std::uint32_t t, int) { return t % 32; }},
      {"%warpid",
       [](const block&, std::uint32_t, int w) { return static_cast<std::uint32_t>(w); }}};
  return all;
}

void set_special_registers(warp& w, const kernel& k) {
  for (const kernel::special& s : k.specials) {
    const special_value value = special_registers().at(s.name);
    auto* r = w.at<std::uint32_t>(s.to);
    for (int l = 0; l < 32; ++l) {
      r[l] = value(*w.in, static_cast<std::uint32_t>(w.thread(l)), w.index);
    }
  }
}

// ---- a block ----

void reset(warp& w, const kernel& k) {
  w.is = warp::state::ready;
  w.left = 0;
  w.turn = 1;
  w.last = nullptr;
  w.ways.assign(1, frame{0, -1, w.lanes});
  w.products.clear();
  w.product_groups.clear();
  w.product_count = 0;
  w.fenced = false;
  w.registers = k.registers;
  w.waited_at = -1;
  w.blocked_place = w.dependency_lanes = 0;
  w.cluster_arrived = w.cluster_waits = 0;
  w.cluster_phase = w.cluster_passed = 0;
  w.others.clear();
  w.released.clear();
  w.asked.by = -1;
  w.clock = 1;
  w.fence_clock = 0;
  std::fill(w.busy.begin(), w.busy.end(), 0);
  std::fill(w.touched.begin(), w.touched.end(), 0);
  for (int l = 0; l < 32; ++l) {
    w.open[l].clear();
    w.groups[l].clear();
    w.stores[l].clear();
    w.store_groups[l].clear();
  }
  set_special_registers(w, k);
}

// What shared memory and registers hold before they are written is undefined: here it is a NaN.
void fill_with_nan(std::uint8_t* to, std::size_t bytes, std::uint32_t nan) {
  for (std::size_t n = 0; n + 4 <= bytes; n += 4) std::memcpy(to + n, &nan, 4);
}

void reset(block& b, const kernel& k) {
  clocks last{};
  for (const warp& w : b.warps) learn(last, w.now);
  last[launches_clock] = 0;
  for (warp& w : b.warps) {
    reset(w, k);
    w.now = last;
    ++w.now[static_cast<std::size_t>(w.index)];
  }
  b.common_epoch = b.first_epoch = ++b.epoch;
  b.ended = b.triggered = b.waited = false;
  b.peer_reads.clear();
  b.touched.clear();
  b.barriers.fill({});
  b.mbarriers.clear();
  b.copies.clear();
  b.free_registers = 0;
  for (auto& moves : b.register_moves) moves.clear();
  std::memset(b.flags.data(), 0, b.flags.size());
  fill_with_nan(b.shared.data(), b.shared.size(), 0xFFC0BAD0U);
  std::fill(b.unfenced.begin(), b.unfenced.end(), 0);
  for (auto& list : b.writes) list.clear();
  for (auto& log : b.group_log) log.clear();
}

void look_for_work_in_flight(warp& w, const kernel& k) {
  if (!w.products.empty() || !w.product_groups.empty()) {
    note(w, k.code.back(), 0, "wgmma in flight at the end", "");
  }
  for (int l = 0; l < 32; ++l) {
    if (w.stores[l].empty() && w.store_groups[l].empty()) continue;
    note(w, k.code.back(), l, "bulk store in flight at the end", "that nobody waited for");
    break;
  }
  for (int l = 0; l < 32; ++l) {
    bool pending = !w.open[l].empty();
    for (const auto& group : w.groups[l]) pending = pending || !group.empty();
    if (!pending) continue;
    note(w, k.code.back(), l, "cp.async in flight at the end", "copies that nobody waited for");
    return;
  }
}

// Every warp that can runs for a while; false: none did. One that was blocked did if it no longer is.
bool take_turns(block& b, kernel& k, std::mt19937& random) {
  const std::size_t warps = b.warps.size(), first = random() % warps;
  bool some = false;
  for (std::size_t n = 0; n < warps; ++n) {
    warp& w = b.warps[(first + n) % warps];
    if (w.is != warp::state::ready && w.is != warp::state::blocked) continue;
    const bool was_blocked = w.is == warp::state::blocked;
    w.is = warp::state::ready;
    run_warp(w, k, was_blocked ? 1 : 1 + static_cast<int>(random() % 512), random);
    some = some || !was_blocked || w.is != warp::state::blocked;
    if (!was_blocked && !asks_again(w)) b.grid->wakes = 0;
    if (w.is == warp::state::done) look_for_work_in_flight(w, k);
  }
  return some;
}

bool all_done(const block& b) {
  return std::ranges::all_of(b.warps, [](const warp& w) { return w.is == warp::state::done; });
}

// Lets the block do something; false: nothing can go on in it.
bool step(block& b, kernel& k, std::mt19937& random) {
  if (take_turns(b, k, random)) {
    if (random() % 8 == 0) land_some_copy(b);
    return true;
  }
  return open_barrier(b) || land_some_copy(b);
}

// The same of a cluster, whose blocks are tried in another order every time.
bool step(cluster& c, kernel& k, std::mt19937& random) {
  bool some = false;
  const std::size_t blocks = c.blocks.size(), first = blocks > 1 ? random() % blocks : 0;
  for (std::size_t n = 0; n < blocks; ++n) {
    block& b = *c.blocks[(first + n) % blocks];
    if (b.ended) continue;
    some = step(b, k, random) || some;
    if (!all_done(b)) continue;
    note_copies_in_flight(b.warps.front(), k.code.back());
    end_of_block(b);
    some = true;
  }
  return some;
}

bool ended(const cluster& c) {
  return std::ranges::all_of(c.blocks, [](const block* b) { return b->ended; });
}

// ---- a launch ----

void make_warps(block& b, kernel& k, std::uint32_t threads, std::size_t slot) {
  static std::deque<std::vector<std::uint8_t>> all;
  while (all.size() <= slot) all.emplace_back();
  std::vector<std::uint8_t>& registers = all[slot];
  const std::size_t warps = (threads + 31) / 32, each = (k.register_bytes + 127) / 64 * 64;
  if (registers.size() < warps * each + 64) registers.resize(warps * each + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(registers.data());
  auto* aligned = registers.data() + ((address + 63) / 64 * 64 - address);
  fill_with_nan(aligned, warps * each, 0xFFC0DEADU);
  b.warps.resize(warps);
  for (std::size_t n = 0; n < warps; ++n) {
    warp& w = b.warps[n];
    w.index = static_cast<int>(n);
    w.in = &b;
    w.k = &k;
    w.base[operand::registers] = aligned + n * each;
    w.base[operand::constants] = k.constants.data();
    const std::uint32_t here = threads - static_cast<std::uint32_t>(n) * 32;
    w.lanes = here >= 32 ? 0xFFFFFFFFU : (1U << here) - 1;
    if (k.has_wgmma) {
      w.busy.assign(each / 64, 0);
      w.touched.assign(each / 64, 0);
    }
  }
}

void make_room(block& b, const kernel& k, std::uint32_t threads) {
  b.shared_end = b.shape.dynamic_shared == 0 ? shared_base + k.static_shared
                                             : k.static_shared_end + b.shape.dynamic_shared;
  const std::size_t room = (b.shared_end + 127) / 64 * 64, lanes = (threads + 31) / 32 * 32;
  b.shared.assign(room, 0);
  b.flags.assign(room, 0);
  if (options().races) {
    b.records.assign(room / 4 + 4, {});
    b.read_clocks.assign((room / 4 + 4) * (lanes / 32), 0);
  }
  if (k.proxy_reads) {
    b.unfenced.assign(room, 0);
    b.writes.resize(lanes);
  }
  b.local.assign(k.local_bytes * lanes, 0xCB);
}

std::vector<std::uint64_t> order_of_blocks(std::uint64_t blocks, std::mt19937& random) {
  std::vector<std::uint64_t> order(blocks);
  for (std::uint64_t n = 0; n < blocks; ++n) order[n] = n;
  if (options().order == 1) std::ranges::reverse(order);
  if (options().order == 2) std::ranges::shuffle(order, random);
  return order;
}

// Cluster n of the grid: blocks that are neighbours in x, y and z.
void begin(cluster& c, kernel& k, std::uint64_t n, std::mt19937& random) {
  const launch_shape& shape = c.blocks.front()->shape;
  const dim3_t &grid = shape.grid, &each = shape.cluster;
  const std::uint64_t across = grid.x / each.x, down = grid.y / each.y;
  const dim3_t first{static_cast<std::uint32_t>(n % across) * each.x,
                     static_cast<std::uint32_t>(n / across % down) * each.y,
                     static_cast<std::uint32_t>(n / across / down) * each.z};
  c.phase = 0;
  c.brought.clear();
  c.passed.clear();
  for (block* b : c.blocks) {
    b->place = {first.x + b->rank % each.x, first.y + b->rank / each.x % each.y,
                first.z + b->rank / each.x / each.y};
    b->number =
        b->place.x + std::uint64_t{grid.x} * (b->place.y + std::uint64_t{grid.y} * b->place.z);
    reset(*b, k);
    b->coin = static_cast<std::uint32_t>(random());
  }
}

// Clusters that are there at the same time, one for each of `places`; when one ends, the next begins. Without
// clusters each is one block.
void run_clusters(std::vector<cluster*> running, kernel& k, const std::vector<std::uint64_t>& order,
                  std::mt19937& random) {
  std::size_t next = 0;
  for (cluster* c : running) begin(*c, k, order[next++], random);
  for (std::uint64_t turns = 0; turns < most_turns; ++turns) {
    bool some = false;
    if (running.size() > 1) std::ranges::shuffle(running, random);
    for (std::size_t n = 0; n < running.size();) {
      some = step(*running[n], k, random) || some;
      if (!ended(*running[n])) {
        ++n;
        continue;
      }
      turns = 0;
      if (next < order.size()) {
        begin(*running[n], k, order[next++], random);
      } else {
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(n));
      }
    }
    if (running.empty()) return;
    if (!some && !wake(running)) fail_launch(k, launch_timeout, where_warps_wait(*running.front()));
  }
  fail_launch(k, launch_timeout, "the kernel does not end");
}

}  // namespace

bool is_special_register(const std::string& name) {
  return special_registers().contains(name);
}

std::uint64_t next_launch() {
  static std::uint64_t launches = 0;
  return ++launches;
}

void run_launch(kernel& k, const launch_shape& shape, std::vector<std::uint8_t> parameters,
                launches_before* before) {
  static std::mt19937 random(options().seed);
  ++k.launches;
  const std::uint64_t launch = next_launch();
  grid_state state;
  begin_early(state, before->early);
  const dim3_t &grid = shape.grid, &each = shape.cluster;
  const std::uint32_t blocks_of_each = each.x * each.y * each.z;
  const std::uint64_t clusters = std::uint64_t{grid.x} * grid.y * grid.z / blocks_of_each;
  // A GPU runs as many as it has room for: a kernel may count on none but the one at hand.
  const std::uint64_t together =
      k.meets_blocks ? std::min(clusters, 1 + random() % most_together) : std::uint64_t{1};
  const std::uint32_t threads = shape.threads.x * shape.threads.y * shape.threads.z;
  std::deque<block> all(together * blocks_of_each);
  std::deque<cluster> places(together);
  std::vector<cluster*> running;
  std::size_t slot = 0;
  for (cluster& c : places) {
    for (std::uint32_t rank = 0; rank < blocks_of_each; ++rank) {
      block& b = all[slot];
      b.k = &k;
      b.shape = shape;
      b.launch = launch;
      b.parameters = &parameters;
      b.grid = &state;
      b.with = &c;
      b.rank = rank;
      make_room(b, k, threads);
      c.blocks.push_back(&b);
      make_warps(b, k, threads, slot++);
    }
    running.push_back(&c);
  }
  run_clusters(running, k, order_of_blocks(clusters, random), random);
  leave_to_next(state, launch, before);
}

}  // namespace unmask::softgpu
