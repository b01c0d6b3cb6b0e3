// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Shared memory of a block: which bytes were written, which are targets of copies that nobody waited
// for, which the asynchronous proxy may not read yet, and who touched them since the last barrier.
#include <algorithm>
#include <bit>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {
namespace {

std::string byte_name(std::uint32_t at) {
  return "shared byte " + std::to_string(at - shared_base);
}

void note_race(const warp& w, const instruction& i, int lane, bool between_warps,
               const std::string& what) {
  note(w, i, lane, between_warps ? "shared race between warps" : "shared race in a warp",
       what + " with no barrier between");
}

std::string who(const warp& w, const block& of, int n) {
  const std::string name = "warp " + std::to_string(n);
  return &of == w.in ? name : name + " of the cluster's block " + std::to_string(of.rank);
}

// The last write to a word of b against this access of it. What all warps of the block met behind is known
// to them, and not to other blocks.
void compare_with_writer(const warp& w, const instruction& i, int lane, const block& b,
                         std::uint32_t word, const shared_record& r, const char* does) {
  if (r.write_epoch < b.first_epoch) return;
  const block& by = *b.with->blocks[r.rank];
  const bool ours = &b == w.in && &by == w.in;
  if (ours && r.write_epoch < b.common_epoch) return;
  const int other = r.writer / 32;
  const bool same_warp = &by == w.in && other == w.index;
  if (!same_warp && knows(w, by, other, r.write_clock)) return;
  const std::string what = std::string(does) + " " + byte_name(word * 4) + " that ";
  if (!same_warp) {
    const bool bulk = r.writer == bulk_thread;
    note_race(w, i, lane, true, what + (bulk ? "a bulk copy" : who(w, by, other)) + " wrote");
  } else if (r.writer % 32 != lane && r.write_turn == w.turn) {
    note_race(w, i, lane, false,
              what + "lane " + std::to_string(r.writer % 32) + " of the same warp wrote");
  }
}

// The reads of a word of b since the last barrier of all against a write of it.
void compare_with_readers(const warp& w, const instruction& i, int lane, const block& b,
                          std::uint32_t word, const shared_record& r) {
  const bool own = &b == w.in;
  const auto found = [&](bool between_warps, const std::string& other) {
    note_race(w, i, lane, between_warps,
              "writes " + byte_name(word * 4) + " that " + other + " read");
  };
  if (r.read_epoch >= (own ? b.common_epoch : b.first_epoch)) {
    const std::uint32_t* read = b.read_clocks.data() + word * b.warps.size();
    std::uint32_t others = r.read_warps & (own ? ~(1U << w.index) : ~0U);
    for (; others != 0; others &= others - 1) {
      const int other = std::countr_zero(others);
      if (knows(w, b, other, read[other])) continue;
      return found(true, who(w, b, other));
    }
    if (own && r.read_warp == w.index && r.read_turn == w.turn &&
        (r.read_lanes & ~(1U << lane)) != 0) {
      found(false, "other lanes of the same warp");
    }
  }
  const auto peers = b.peer_reads.find(word);
  if (peers == b.peer_reads.end()) return;
  for (const peer_access& a : peers->second) {
    const block& by = *b.with->blocks[a.rank];
    if ((&by == w.in && a.warp == w.index) || knows(w, by, a.warp, a.clock)) continue;
    return found(true, who(w, by, a.warp));
  }
}

void record_write(warp& w, const instruction& i, int lane, block& b, std::uint32_t word,
                  bool atomic) {
  shared_record& r = b.records[word];
  if (!(atomic && r.atomic)) compare_with_writer(w, i, lane, b, word, r, "writes");
  compare_with_readers(w, i, lane, b, word, r);
  r.atomic = atomic;
  r.rank = static_cast<std::uint8_t>(w.in->rank);
  r.write_epoch = b.epoch;
  r.write_clock = w.now[static_cast<std::size_t>(w.index)];
  r.write_turn = w.turn;
  r.writer = static_cast<std::uint16_t>(w.thread(lane));
}

void record_peer_read(const warp& w, block& b, std::uint32_t word) {
  const std::uint32_t clock = w.now[static_cast<std::size_t>(w.index)];
  std::vector<peer_access>& all = b.peer_reads[word];
  for (peer_access& a : all) {
    if (a.rank != w.in->rank || a.warp != w.index) continue;
    a.clock = clock;
    return;
  }
  all.push_back({w.in->rank, clock, w.index, 0, nullptr});
}

void record_read(warp& w, const instruction& i, int lane, block& b, std::uint32_t word) {
  shared_record& r = b.records[word];
  compare_with_writer(w, i, lane, b, word, r, "reads");
  if (&b != w.in) return record_peer_read(w, b, word);
  if (r.read_epoch < b.common_epoch) {
    r.read_warps = 0;
    r.read_lanes = 0;
  }
  r.read_epoch = b.epoch;
  if (r.read_warp != w.index || r.read_turn != w.turn) r.read_lanes = 0;
  r.read_warp = static_cast<std::uint16_t>(w.index);
  r.read_turn = w.turn;
  r.read_warps |= 1U << w.index;
  b.read_clocks[word * b.warps.size() + static_cast<std::size_t>(w.index)] =
      w.now[static_cast<std::size_t>(w.index)];
  r.read_lanes |= 1U << lane;
}

// Were these bytes all written, with no copy on its way? One comparison in the usual case.
bool plainly_written(const block& b, std::uint32_t at, std::uint32_t bytes) {
  constexpr std::uint64_t written = 0x0101010101010101U;
  std::uint64_t flags[2] = {written, written};
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  std::memcpy(flags, b.flags.data() + at, bytes);
  return flags[0] == written && flags[1] == written;
}

void look_for_unwritten(const warp& w, const instruction& i, int lane, const block& b,
                        std::uint32_t at, std::uint32_t bytes) {
  for (std::uint32_t n = at; n < at + bytes; ++n) {
    const auto flag = static_cast<std::uint8_t>(b.flags[n] & ~block::read_by_copy);
    if (flag == block::written) continue;
    if ((flag & block::copy_on_its_way) != 0) {
      note(w, i, lane, "read before a copy arrived",
           byte_name(n) + " is the target of a copy that nobody waited for");
    } else {
      note(w, i, lane, "uninitialised shared memory", byte_name(n) + " was never written");
    }
    return;
  }
}

void look_for_missing_fence(const warp& w, const instruction& i, int lane, const block& b,
                            std::uint32_t at, std::uint32_t bytes) {
  for (std::uint32_t n = at; n < at + bytes; ++n) {
    if (b.unfenced[n] == 0) continue;
    note(w, i, lane, "no proxy fence",
         byte_name(n) + " was written by thread " + std::to_string(b.unfenced[n] - 1) +
             ", which executed no fence.proxy.async since");
    return;
  }
  if (!options().races || bytes < 4) return;
  for (std::uint32_t word = at / 4; word <= (at + bytes - 1) / 4; ++word) {
    const shared_record& r = b.records[word];
    const auto other = static_cast<std::size_t>(r.writer / 32);
    if (r.rank != b.rank || r.write_epoch < b.common_epoch || r.fence_clock <= w.now[other]) {
      continue;
    }
    note(w, i, lane, "no proxy fence",
         byte_name(word * 4) + " was fenced by thread " + std::to_string(r.writer) +
             " behind the barrier that both passed");
    return;
  }
}

}  // namespace

void shared_written(warp& w, const instruction& i, int lane, block& b, std::uint32_t at,
                    std::uint32_t bytes, bool atomic) {
  constexpr std::uint8_t copied = block::copy_on_its_way | block::read_by_copy;
  const auto* flags = b.flags.data() + at;
  const auto* under_copy =
      std::find_if(flags, flags + bytes, [](std::uint8_t f) { return (f & copied) != 0; });
  if (under_copy != flags + bytes) {
    note(w, i, lane, "write under a copy",
         byte_name(at + static_cast<std::uint32_t>(under_copy - flags)) + " is the " +
             ((*under_copy & block::read_by_copy) != 0 ? "source" : "target") +
             " of a copy that nobody waited for");
  }
  std::memset(b.flags.data() + at, block::written, bytes);
  if (w.k->proxy_reads && &b == w.in) {
    const int thread = w.thread(lane);
    std::fill_n(b.unfenced.begin() + at, bytes, static_cast<std::uint16_t>(thread + 1));
    b.writes[static_cast<std::size_t>(thread)].emplace_back(at, bytes);
  }
  if (!options().races || bytes < 4) return;  // records are of four bytes
  for (std::uint32_t word = at / 4; word <= (at + bytes - 1) / 4; ++word) {
    record_write(w, i, lane, b, word, atomic);
  }
}

void shared_read(warp& w, const instruction& i, int lane, block& b, std::uint32_t at,
                 std::uint32_t bytes, bool async_proxy) {
  if (!plainly_written(b, at, bytes)) look_for_unwritten(w, i, lane, b, at, bytes);
  if (async_proxy) look_for_missing_fence(w, i, lane, b, at, bytes);
  if (!options().races || bytes < 4) return;
  for (std::uint32_t word = at / 4; word <= (at + bytes - 1) / 4; ++word) {
    record_read(w, i, lane, b, word);
  }
}

void bulk_overwrites(warp& w, const instruction& i, int lane, block& b, std::uint32_t at,
                     std::uint32_t bytes) {
  constexpr std::uint8_t copied = block::copy_on_its_way | block::read_by_copy;
  for (std::uint32_t n = at; n < at + bytes; ++n) {
    if ((b.flags[n] & copied) == 0) continue;
    const bool target = (b.flags[n] & block::copy_on_its_way) != 0;
    note(w, i, lane, "write under a copy",
         byte_name(n) + " is the " + (target ? "target" : "source") + " of another copy");
    break;
  }
  for (std::uint32_t n = at; n < at + bytes; ++n) b.flags[n] |= block::copy_on_its_way;
  look_for_users(w, i, lane, b, at, bytes);
}

void look_for_users(const warp& w, const instruction& i, int lane, const block& b, std::uint32_t at,
                    std::uint32_t bytes) {
  if (!options().races) return;
  for (std::uint32_t word = at / 4; word < (at + bytes) / 4; ++word) {
    const shared_record& r = b.records[word];
    compare_with_writer(w, i, lane, b, word, r, "copies over");
    compare_with_readers(w, i, lane, b, word, r);
  }
}

// ---- cp.async ----

namespace {
void arrive(warp& w, const instruction& i, int lane, const copy_request& c) {
  block& b = *w.in;
  for (std::uint32_t n = 0; n < c.bytes; ++n)
    b.flags[c.to + n] &= static_cast<std::uint8_t>(~block::copy_on_its_way);
  std::memset(b.shared.data() + c.to, 0, c.bytes);
  if (c.valid > 0)
    std::memcpy(b.shared.data() + c.to, reinterpret_cast<const void*>(c.from), c.valid);
  shared_written(w, i, lane, b, c.to, c.bytes);
}
}  // namespace

void commit_copies(warp& w, std::uint32_t lanes) {
  for (int l = 0; l < 32; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    w.groups[l].push_back(std::move(w.open[l]));
    w.open[l].clear();
  }
}

void wait_copies(warp& w, const instruction& i, std::uint32_t lanes, std::size_t left) {
  for (int l = 0; l < 32; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    land_copies_of(*w.in, w.thread(l));
    while (w.groups[l].size() > left) {
      for (const copy_request& c : w.groups[l].front()) arrive(w, i, l, c);
      w.groups[l].pop_front();
    }
  }
}

void proxy_fence(warp& w, std::uint32_t lanes) {
  if (!w.k->proxy_reads) return;
  block& b = *w.in;
  for (int l = 0; l < 32; ++l) {
    if ((lanes >> l & 1) == 0) continue;
    const int thread = w.thread(l);
    auto& mine = b.writes[static_cast<std::size_t>(thread)];
    for (const auto& [at, bytes] : mine) {
      for (std::uint32_t n = 0; n < bytes; ++n) {
        if (b.unfenced[at + n] != thread + 1) continue;
        b.unfenced[at + n] = 0;
        if (options().races) {
          b.records[(at + n) / 4].fence_clock = w.now[static_cast<std::size_t>(w.index)];
        }
      }
    }
    mine.clear();
  }
}

}  // namespace unmask::softgpu
