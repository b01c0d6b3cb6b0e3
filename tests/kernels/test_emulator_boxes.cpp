// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Copies of boxes and the barriers to which they report (device/boxes.h) on the emulator: a small kernel, right and
// then with one planted fault.
#include <gtest/gtest.h>

#include <regex>
#include <vector>

#include "kernels/cuda/box_maps.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::emulated {
namespace {

using emulator::emulation_error;

enum class box_fault {
  none,
  no_wait,        // a stage is read before its copies have landed
  no_empty_wait,  // a stage is filled again before it was read
  few_bytes,      // less is announced than comes
  own_alone,      // a reader tells its own block alone that it has read a stage
  no_final,       // a block ends before the other one's copies and arrivals
  not_started,    // a barrier that nobody made
  unaligned       // a box that does not begin at a multiple of 1024
};

// In two blocks of a cluster, a step of 64 columns after the other: 16 rows of the same 32 for both, which each block
// copies for both, and eight rows of its own. out[block, column of 64]: what a column sums to, weighted by its row.
constexpr int shared_rows = 32, own_rows = 8, all_rows = shared_rows + own_rows, stages = 2;
struct boxes_params {
  box_map common, own;
  float* out;
  int steps;
  box_fault plant;
};
UNMASK_KERNEL void boxes_kernel(UNMASK_ARGUMENT boxes_params p) {
  shared_allocator shared;
  std::uint16_t* tile = shared.take<std::uint16_t>(stages * all_rows * 64 + 64).data();
  phase_barrier* full = shared.take<phase_barrier>(stages).data();
  phase_barrier* empty = shared.take<phase_barrier>(stages).data();
  const int lane = lane_index(), rank = cluster_rank();
  if (thread_index() == 0) {
    for (int s = 0; s < stages; ++s) {
      start_phases(full + s, 1);
      if (p.plant != box_fault::not_started) start_phases(empty + s, 2);
    }
    publish_phases();
  }
  sync_warp();
  sync_cluster();
  if (thread_index() == 0) {
    for (int step = 0; step < p.steps; ++step) {
      const int s = step % stages, parity = step / stages % 2;
      std::uint16_t* to = tile + s * all_rows * 64 + (p.plant == box_fault::unaligned ? 64 : 0);
      if (p.plant != box_fault::no_empty_wait) wait_phase(empty + s, parity ^ 1);
      arrive_with_bytes(full + s, (p.plant == box_fault::few_bytes ? own_rows : all_rows) * 128);
      copy_box_to_pair(to + rank * shared_rows / 2 * 64, p.common, step * 64,
                       rank * shared_rows / 2, full + s);
      copy_box(to + shared_rows * 64, p.own, step * 64, rank * own_rows, full + s);
    }
  } else if (warp_index() > 0) {
    float sums[2] = {};
    for (int step = 0; step < p.steps; ++step) {
      const int s = step % stages, parity = step / stages % 2;
      if (p.plant != box_fault::no_wait) wait_phase(full + s, parity);
      for (int r = 0; r < all_rows; ++r) {
        for (int half = 0; half < 2; ++half) {
          const int column = half * 32 + lane;
          const int place = r * 64 + ((column / 8 ^ (r & 7)) * 8) + column % 8;
          sums[half] += static_cast<float>(r + 1) * bf16_to_float(tile[s * all_rows * 64 + place]);
        }
      }
      sync_warp();
      if (lane < (p.plant == box_fault::own_alone ? 1 : 2)) arrive_at_peer(empty + s, rank ^ lane);
    }
    for (int half = 0; half < 2; ++half) {
      p.out[block_index() * 64 + static_cast<unsigned>(half * 32 + lane)] = sums[half];
    }
  }
  sync_warp();
  if (p.plant != box_fault::no_final) sync_cluster();
}

bool boxes_right(box_fault plant) {
  // 27 rows for the boxes of both and 12 for their own: the last rows, and the last columns, are outside.
  constexpr int rows = 27, own = 12, columns = 328, steps = 6;
  const auto number = [](int r, int c) { return static_cast<float>((r * 5 + c * 3) % 17 - 8); };
  std::vector<std::uint16_t> common(rows * columns), mine(own * columns);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c)
      common[static_cast<std::size_t>(r * columns + c)] = bf16_of(number(r, c));
  }
  for (int r = 0; r < own; ++r) {
    for (int c = 0; c < columns; ++c)
      mine[static_cast<std::size_t>(r * columns + c)] = bf16_of(number(r + 50, c));
  }
  bool right = true;
  for (const emulator::schedule& order :
       {emulator::schedule{}, emulator::schedule{true, false, 0},
        emulator::schedule{false, true, 0}, emulator::schedule{false, false, 7, true}}) {
    std::vector<float> out(128, -1.0F);
    queue q;
    emulator::set_schedule(order);
    q.launch("boxes",
             {2, 64, (stages * all_rows * 64 + 64) * 2 + 2 * stages * sizeof(phase_barrier), 1, 2},
             boxes_kernel,
             {box_map_of(common.data(), rows, columns, shared_rows / 2),
              box_map_of(mine.data(), own, columns, own_rows), out.data(), steps, plant});
    q.synchronize();
    for (int block = 0; block < 2; ++block) {
      for (int c = 0; c < 64; ++c) {
        float want = 0;
        for (int r = 0; r < all_rows; ++r) {
          for (int at = c; at < columns; at += 64) {
            const int place = r - shared_rows + block * own_rows;
            const bool of_both = r < shared_rows;
            if (of_both ? r >= rows : place >= own) continue;
            want += static_cast<float>(r + 1) * (of_both ? number(r, at) : number(place + 50, at));
          }
        }
        right = right && out[static_cast<std::size_t>(block * 64 + c)] == want;
      }
    }
  }
  emulator::set_schedule({});
  return right;
}

TEST(emulator_boxes, land_where_they_should_and_report_it) {
  EXPECT_TRUE(boxes_right(box_fault::none));
  // In words, or by wrong numbers.
  const std::pair<box_fault, const char*> cases[] = {
      {box_fault::no_wait, "hangs|an arrival that no phase waits for"},
      {box_fault::no_empty_wait, "an arrival that no phase waits for"},
      {box_fault::few_bytes, "hangs|an arrival that no phase waits for"},
      {box_fault::own_alone, "hangs"},
      {box_fault::no_final, "that has ended|no barrier of the cluster kept it"},
      {box_fault::not_started, "a barrier that was not started"},
      {box_fault::unaligned, "not aligned to 1024"}};
  for (const auto& [plant, words] : cases) {
    try {
      EXPECT_FALSE(boxes_right(plant)) << "not found: " << words;
    } catch (const emulation_error& e) {
      EXPECT_TRUE(std::regex_search(e.what(), std::regex(words))) << e.what();
    }
    emulator::set_schedule({});
  }
}

}  // namespace
}  // namespace unmask::cuda::emulated
