// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Barriers in shared memory and the copies that report to them (boxes.h). A copy lands at once (schedule), or when
// no thread of the cluster can go on without it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/device/boxes.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask::cuda::emulator {

namespace {

constexpr std::size_t row_bytes = 128, piece_bytes = 16;

struct phases {
  unsigned ended = 0;  // how many phases have
  int arrivals = 0;    // that a phase needs
  int missing = 0;     // of this phase
  std::int64_t bytes =
      0;  // of this phase that were announced and have not come; below 0: the other way round
};
struct box_copy {
  unsigned char *to, *shared;  // shared: the memory of the block it goes to
  box_map map;
  int column, row;
  phases* bar;
};

// Of the cluster that runs on this thread.
thread_local std::map<const void*, phases> barriers;
thread_local std::vector<box_copy> under_way;

void end_if_complete(phases& p) {
  if (p.missing > 0 || p.bytes != 0) return;
  ++p.ended;
  p.missing = p.arrivals;
}

phases& barrier_at(const void* bar, unsigned rank) {
  const auto found = barriers.find(of_peer(bar, sizeof(std::uint64_t), rank));
  if (found == barriers.end()) fail("a barrier that was not started");
  return found->second;
}

void land(const box_copy& c) {
  for (int r = 0; r < c.map.box_rows; ++r) {
    const std::int64_t row = std::int64_t{c.row} + r;
    for (std::size_t piece = 0; piece < row_bytes / piece_bytes; ++piece) {
      auto at = static_cast<std::size_t>(c.to - c.shared) +
                static_cast<std::size_t>(r) * row_bytes + piece * piece_bytes;
      at ^= (at >> 7 & 7U) << 4;
      const std::int64_t column = c.column + static_cast<std::int64_t>(piece * piece_bytes / 2);
      if (row < c.map.rows && column < c.map.columns) {
        std::memcpy(c.shared + at, c.map.data + row * c.map.apart + column, piece_bytes);
      } else {
        std::memset(c.shared + at, 0, piece_bytes);
      }
    }
  }
  c.bar->bytes -= static_cast<std::int64_t>(c.map.box_rows) * static_cast<std::int64_t>(row_bytes);
  end_if_complete(*c.bar);
}

void note_box(const box_map& map, int column, int row, const void* site) {
  if (!counting()) return;
  for (int r = 0; r < map.box_rows && row + r < map.rows; ++r) {
    for (std::int64_t c = column; c < column + 64 && c < map.columns; c += 8) {
      note_access(map.data + (row + r) * map.apart + c, piece_bytes, false, site);
    }
  }
}

}  // namespace

void forget_boxes() {
  barriers.clear();
  under_way.clear();
}

bool land_boxes() {
  const std::vector<box_copy> all = std::move(under_way);
  under_way.clear();
  for (const box_copy& c : all) land(c);
  return !all.empty();
}

void start_phases(const void* bar, int arrivals) {
  const auto* at = static_cast<const unsigned char*>(bar);
  if (at < shared_base() || at + sizeof(std::uint64_t) > shared_base() + shared_size() ||
      reinterpret_cast<std::uintptr_t>(bar) % sizeof(std::uint64_t) != 0) {
    fail("a barrier outside the block's shared memory");
  }
  barriers[bar] = {0, arrivals, arrivals, 0};
}

void arrive_at_phase(const void* bar, int bytes, unsigned rank) {
  phases& p = barrier_at(bar, rank);
  if (p.missing == 0) fail("an arrival that no phase waits for");
  --p.missing;
  p.bytes += bytes;
  end_if_complete(p);
}

void wait_phase(const void* bar, int parity) {
  const phases& p = barrier_at(bar, rank_in_cluster());
  while (static_cast<int>(p.ended & 1U) == parity) wait_for_change(&p.ended);
}

void copy_box(void* to, const box_map& map, int column, int row, const void* bar, unsigned blocks) {
  const std::size_t bytes = row_bytes * static_cast<std::size_t>(map.box_rows);
  note_box(map, column, row, __builtin_return_address(0));
  for (unsigned rank = 0; blocks >> rank != 0; ++rank) {
    if ((blocks >> rank & 1U) == 0) continue;
    auto* there = const_cast<unsigned char*>(
        static_cast<const unsigned char*>(of_peer(to, bytes, rank, 1024)));
    const std::ptrdiff_t offset = static_cast<unsigned char*>(to) - shared_base();
    under_way.push_back({there, there - offset, map, column, row, &barrier_at(bar, rank)});
  }
  if (copies_land_at_once()) land_boxes();
}

}  // namespace unmask::cuda::emulator
