// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the emulator counts of a kernel's accesses: kernels whose traffic is known by construction,
// and one planted fault for every count that a budget holds to zero. This file is compiled as the
// backend's kernels are, with a call around every load and store.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/cache_access.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::emulated {
namespace {

using emulator::device_traffic;
using emulator::kernel_traffic;

struct copy_params {
  const float* from;
  float* to;
  int count, stride;
};

UNMASK_KERNEL void copy_kernel(copy_params p) {
  for (int i = static_cast<int>(thread_index()); i < p.count; i += static_cast<int>(block_size())) {
    p.to[i] = p.from[i * p.stride];
  }
}
UNMASK_KERNEL void copy_pairs_kernel(copy_params p) {
  for (int i = 2 * static_cast<int>(thread_index()); i < p.count;
       i += 2 * static_cast<int>(block_size())) {
    const float_pair both = load_pair(p.from, dtype::f32, i);
    store_pair(p.to, dtype::f32, i, both.a, both.b);
  }
}
// Every lane reads what the others read: one sector a request.
UNMASK_KERNEL void broadcast_kernel(copy_params p) {
  p.to[thread_index()] = p.from[0];
}
// Columns of a matrix of `stride` floats a row, through shared memory.
UNMASK_KERNEL void column_kernel(copy_params p) {
  shared_allocator shared;
  const shared_array<float> room = shared.take<float>(32 * p.stride);
  const int lane = lane_index();
  for (int c = 0; c < p.stride; ++c) room[lane * p.stride + c] = static_cast<float>(c);
  sync_warp();
  p.to[lane] = room[lane * p.stride];
}
// 16 bytes a lane by cp.async, every second place filled with zeros.
UNMASK_KERNEL void staged_kernel(copy_params p) {
  shared_allocator shared;
  const shared_array<float> room = shared.take<float>(32 * 4);
  const int lane = lane_index();
  copy_async_16(room.data() + lane * 4, p.from + lane * 4, lane % 2 == 0);
  copy_async_commit();
  copy_async_wait<0>();
  sync_warp();
  p.to[lane] = room[lane * 4];
}
// 16 bytes a lane. Behind the wait the lane that came last goes on first.
UNMASK_KERNEL void pieces_kernel(copy_params p) {
  shared_allocator shared;
  const shared_array<float> room = shared.take<float>(32 * 4);
  const int lane = lane_index(), place = lane / 8 * 8 + (lane % 8 ^ lane / 8);
  const float_quad from = word_at<float_quad>(p.from + lane * 4);
  sync_warp();
  word_at<float_quad>(room.data() + place * 4) = from;
  sync_warp();
  p.to[lane] = room[lane * 4];
}

class traffic : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!emulator::sees_accesses()) GTEST_SKIP() << "accesses are not seen in this build";
  }
  float* floats(std::size_t count, memory_kind kind = memory_kind::device) {
    kept_.push_back(q_.allocate(count * sizeof(float), kind));
    return static_cast<float*>(kept_.back().get());
  }
  device_traffic counted(const grid_shape& shape, void (*kernel)(copy_params),
                         const copy_params& p) {
    emulator::begin_counting();
    q_.launch("kernel", shape, kernel, p);
    q_.synchronize();
    return emulator::end_counting();
  }
  kernel_traffic of(const grid_shape& shape, void (*kernel)(copy_params), const copy_params& p) {
    return counted(shape, kernel, p).kernels.at("kernel");
  }

 private:
  queue q_;
  std::vector<std::shared_ptr<void>> kept_;
};

TEST_F(traffic, neighbouring_lanes_touch_the_sectors_that_their_bytes_need) {
  const device_traffic all = counted({2, 64}, copy_kernel, {floats(256), floats(256), 256, 1});
  EXPECT_EQ(all.launches, 1U);
  EXPECT_EQ(all.waits, 1U);
  const kernel_traffic& k = all.kernels.at("kernel");
  EXPECT_EQ(k.launches, 1U);
  EXPECT_EQ(k.blocks, 2U);
  // Both blocks copy all of it: 256 floats in 8 requests of 128 bytes each.
  EXPECT_EQ(k.read.requests, 16U);
  EXPECT_EQ(k.read.bytes, 2U * 1024);
  EXPECT_EQ(k.read.sectors, 64U);
  EXPECT_EQ(k.read.touched, 1024U) << "the second block reads what is there already";
  EXPECT_EQ(k.written.requests, 16U);
  EXPECT_EQ(k.written.touched, 1024U);
  EXPECT_EQ(k.read.excess + k.written.excess, 0U);
  EXPECT_EQ(k.read.uncoalesced + k.written.uncoalesced, 0U);
  EXPECT_EQ(k.host_bytes, 0U);
  EXPECT_EQ(k.elsewhere, 0U) << "arguments and locals are not memory";
}

TEST_F(traffic, strided_lanes_are_uncoalesced) {
  const kernel_traffic k = of({1, 32}, copy_kernel, {floats(32 * 16), floats(32), 32, 16});
  EXPECT_EQ(k.read.bytes, 128U);
  EXPECT_EQ(k.read.sectors, 32U);
  EXPECT_EQ(k.read.excess, 28U);
  EXPECT_EQ(k.read.uncoalesced, 1U);
  EXPECT_EQ(k.read.touched, 1024U);
  EXPECT_EQ(k.written.uncoalesced, 0U);
}

TEST_F(traffic, parts_of_a_struct_are_one_access) {
  const kernel_traffic k = of({1, 32}, copy_pairs_kernel, {floats(128), floats(128), 128, 1});
  EXPECT_EQ(k.read.requests, 2U);
  EXPECT_EQ(k.read.bytes, 512U);
  EXPECT_EQ(k.read.sectors, 16U);
  EXPECT_EQ(k.written.requests, 2U);
  EXPECT_EQ(k.written.sectors, 16U);
}

TEST_F(traffic, lanes_that_read_the_same_address_ask_once) {
  const kernel_traffic k = of({1, 32}, broadcast_kernel, {floats(1), floats(32), 32, 1});
  EXPECT_EQ(k.read.bytes, 4U);
  EXPECT_EQ(k.read.sectors, 1U);
  EXPECT_EQ(k.read.uncoalesced, 0U);
}

TEST_F(traffic, memory_of_the_host_is_told_from_the_devices) {
  for (const memory_kind kind : {memory_kind::pinned, memory_kind::managed}) {
    const kernel_traffic k = of({1, 32}, copy_kernel, {floats(32, kind), floats(32), 32, 1});
    EXPECT_EQ(k.host_bytes, 128U);
    const kernel_traffic w = of({1, 32}, copy_kernel, {floats(32), floats(32, kind), 32, 1});
    EXPECT_EQ(w.host_bytes, 128U);
  }
}

TEST_F(traffic, asynchronous_copies_are_loads_where_they_load) {
  const kernel_traffic k = of({1, 32, 4096}, staged_kernel, {floats(128), floats(32), 32, 1});
  EXPECT_EQ(k.read.requests, 1U);
  EXPECT_EQ(k.read.bytes, 256U);
  EXPECT_EQ(k.read.sectors, 16U) << "half of every 32 bytes";
}

TEST_F(traffic, lanes_that_meet_in_a_bank_take_turns) {
  // 33 floats a row: columns lie in different banks; 32 floats: all in one.
  const kernel_traffic apart = of({1, 32, 8192}, column_kernel, {nullptr, floats(32), 0, 33});
  EXPECT_EQ(apart.shared_excess, 0U);
  EXPECT_EQ(apart.shared_waves, 34U);
  const kernel_traffic together = of({1, 32, 8192}, column_kernel, {nullptr, floats(32), 0, 32});
  EXPECT_EQ(together.shared_excess, 33U * 31);
}

// Lanes 0 to 7 are served together, whatever lane came first: their pieces fill all banks. Then each reads the first
// word of a piece, and four lanes meet in a bank.
TEST_F(traffic, eight_neighbours_are_served_together) {
  const kernel_traffic k = of({1, 32, 4096}, pieces_kernel, {floats(128), floats(32), 32, 1});
  EXPECT_EQ(k.shared_waves, 4U + 4);
  EXPECT_EQ(k.shared_excess, 3U);
}

TEST_F(traffic, nothing_is_counted_unless_asked) {
  queue q;
  const copy_params p{floats(32), floats(32), 32, 1};
  q.launch("kernel", {1, 32}, copy_kernel, p);
  EXPECT_FALSE(emulator::counting());
  EXPECT_EQ(counted({1, 32}, copy_kernel, p).kernels.at("kernel").launches, 1U);
}

}  // namespace
}  // namespace unmask::cuda::emulated
