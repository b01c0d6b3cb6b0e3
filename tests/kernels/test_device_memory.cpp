// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the emulated device refuses as a GPU would: bad input that a kernel sees, and memory of the
// host.
#include "harness/decode/kernels/features.h"
#include "kernels/cuda/device/traffic.h"
#include "kernels/decisions.h"
#include "kernels/sanitized.h"
#include "kernels/selection.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;

// Bad input that only a kernel sees is reported at the next wait.
TEST(device_memory, faults_are_reported_when_the_host_waits) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, false});
  const backend& device = cuda_emulated_backend();
  const indices begin{0, 1}, zero{0}, at{3}, other{4};
  const row_set rows{1, 1, begin.data(), zero.data(), at.data(), nullptr};
  const row_set absent{1, 1, begin.data(), zero.data(), other.data(), nullptr};
  indices index{-7};
  EXPECT_NO_THROW(device.run(op::find_rows{rows, absent, index.data()}));
  EXPECT_THROW(device.synchronize(), std::logic_error);
  EXPECT_NO_THROW(device.synchronize());  // once
  device.run(op::find_rows{rows, rows, index.data()});
  EXPECT_NO_THROW(device.synchronize());
  EXPECT_EQ(index[0], 0);
  const indices two{0, 2};
  const float score = 1;
  indices out{-7, -7};
  EXPECT_NO_THROW(device.run(op::top_indices{1, begin.data(), &score, two.data(), out.data()}));
  EXPECT_THROW(device.synchronize(), std::logic_error);
  EXPECT_EQ(out, (indices{-7, -7}));
  cuda::set_emulation(before);
}

// Work that the host is to see nothing of goes on while it comes for its lists.
TEST(device_memory, what_the_host_does_not_see_is_not_waited_for) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  const backend& device = cuda_emulated_backend();
  const tensor own = device.allocate(dtype::f32, {8}),
               list = device.allocate(dtype::f32, {8}, memory_use::host_visible);
  device.synchronize();
  cuda::emulator::begin_counting(false);
  device.clear(own.view().data, own.bytes());
  device.run(op::combine_scores{8, own.as<float>(), 1, nullptr, 0, own.as<float>()});
  device.bring_home();
  EXPECT_EQ(cuda::emulator::end_counting().waits, 0U);
  const std::vector<float> fives(8, 5.0F);
  device.write(own.view().data, fives.data(), own.bytes());
  cuda::emulator::begin_counting(false);
  device.run(op::combine_scores{8, own.as<float>(), 2, nullptr, 0, list.as<float>()});
  device.bring_home();
  device.bring_home();
  EXPECT_EQ(cuda::emulator::end_counting().waits, 1U);
  EXPECT_EQ(list.as<float>()[7], 10);
  cuda::set_emulation(before);
}

// What the host and kernels share: kernels see it as it was when they were launched, the host sees
// what they wrote behind the next wait.
TEST(device_memory, exchanged_arrays_are_copied_when_an_operation_is_run) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  const backend& device = cuda_emulated_backend();
  const auto array = [&] { return device.allocate(dtype::f32, {40}, memory_use::host_visible); };
  const tensor x = array(), doubled = array(), tripled = array();
  std::fill_n(x.as<float>(), 40, 1.0F);
  const auto times = [&](float factor, const tensor& to) {
    device.run(op::combine_scores{40, x.as<float>(), factor, nullptr, 0, to.as<float>()});
  };
  times(2, doubled);
  std::fill_n(x.as<float>(), 40, 10.0F);  // the first operation has not run
  times(3, tripled);
  x.as<float>()[0] = 7;
  EXPECT_EQ(doubled.as<float>()[0], 0);
  device.synchronize();
  EXPECT_EQ(doubled.as<float>()[0], 2);
  EXPECT_EQ(tripled.as<float>()[39], 30);
  EXPECT_EQ(x.as<float>()[0], 7);
  times(3, doubled);  // what is freed while a kernel writes it is not handed out before
  {
    const tensor gone = array();
    times(5, gone);
  }
  const tensor next = array();
  std::fill_n(next.as<float>(), 40, 4.0F);
  device.run(op::combine_scores{40, next.as<float>(), 1, nullptr, 0, tripled.as<float>()});
  device.synchronize();
  EXPECT_EQ(doubled.as<float>()[0], 21);
  EXPECT_EQ(tripled.as<float>()[0], 4);
  EXPECT_EQ(next.as<float>()[0], 4);
  cuda::set_emulation(before);
}

// Arrays that are allocated together lie together and share a copy, also where larger ones lay
// between those whose place they take.
TEST(device_memory, neighbours_share_a_copy_whatever_lay_there_before) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, false, true});
  const backend& device = cuda_emulated_backend();
  const auto array = [&](std::int64_t count) {
    return device.allocate(dtype::f32, {count}, memory_use::host_visible);
  };
  {
    std::vector<tensor> mixed;
    for (int i = 0; i < 6; ++i) {
      mixed.push_back(array(100));
      mixed.push_back(array(40000));
    }
    while (!mixed.empty()) mixed.erase(mixed.begin());
  }
  const tensor a = array(100), b = array(100), sum = array(100);
  std::fill_n(a.as<float>(), 100, 1.0F);
  std::fill_n(b.as<float>(), 100, 2.0F);
  device.synchronize();
  cuda::emulator::begin_counting(false);
  device.run(op::combine_scores{100, a.as<float>(), 1, b.as<float>(), 1, sum.as<float>()});
  device.synchronize();
  EXPECT_EQ(cuda::emulator::end_counting().copies, 1U);
  EXPECT_EQ(sum.as<float>()[99], 3);
  cuda::set_emulation(before);
}

// Of a list of 65,536 places those travel that the host has changed, in whole pieces of 64 bytes. Between two lists'
// used parts lie 258,112 bytes, more than the 64 KiB that travel to spare a copy: they are left out.
TEST(device_memory, a_list_travels_as_far_as_it_is_used) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, false, true});
  const backend& device = cuda_emulated_backend();
  constexpr std::int64_t capacity = 1 << 16;
  const auto array = [&](std::int64_t count) {
    const tensor all = device.allocate(dtype::f32, {count}, memory_use::host_visible);
    std::fill_n(all.as<float>(), count, 0.0F);
    return all;
  };
  const tensor list = array(capacity), other = array(capacity), sum = array(8);
  // Places [first, last) of a list become v; what reads both lists next copies so many bytes, in so many copies.
  const auto change = [](const tensor& of, std::int64_t first, std::int64_t last, float v) {
    std::fill(of.as<float>() + first, of.as<float>() + last, v);
  };
  const auto expect_copied = [&](std::uint64_t bytes, std::uint64_t copies) {
    cuda::emulator::begin_counting(false);
    device.run(op::combine_scores{8, list.as<float>(), 1, other.as<float>(), 1, sum.as<float>()});
    device.synchronize();
    const cuda::emulator::device_traffic asked = cuda::emulator::end_counting();
    EXPECT_EQ(asked.copied_bytes, bytes);
    EXPECT_EQ(asked.copies, copies);
    EXPECT_EQ(sum.as<float>()[7], list.as<float>()[7] + other.as<float>()[7]);
  };
  device.run(op::combine_scores{8, list.as<float>(), 1, other.as<float>(), 1, sum.as<float>()});
  device.synchronize();
  expect_copied(0, 0);
  change(list, 0, 1000, 1);  // 62.5 pieces
  expect_copied(63 * 64, 1);
  change(list, 1000, 2000, 2);  // the second half of a piece, and 62
  expect_copied(63 * 64, 1);
  change(list, 0, 1000, 3);
  change(other, 0, 1000, 4);
  expect_copied(2 * 63 * 64, 2);
  change(list, 0, capacity, 5);
  expect_copied(capacity * 4, 1);
  cuda::set_emulation(before);
}

// Recorded operations take what the arrays hold when they are repeated.
TEST(device_memory, repeated_operations_read_the_arrays_anew) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  const backend& device = cuda_emulated_backend();
  const tensor x = device.allocate(dtype::f32, {8}, memory_use::host_visible);
  const auto body = [&] {
    device.run(op::combine_scores{8, x.as<float>(), 2, nullptr, 0, x.as<float>()});
  };
  const auto work = device.capture(body);
  for (const float start : {1.0F, 5.0F}) {
    std::fill_n(x.as<float>(), 8, start);
    device.replay(*work);
    device.replay(*work);
    device.synchronize();
    EXPECT_EQ(x.as<float>()[7], 4 * start);
  }
  cuda::set_emulation(before);
}

// Memory that only operations use ends the program that touches it, where the tests ask for that.
TEST(device_memory, resident_memory_can_be_closed_to_the_host) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, true, true});
  const backend& device = cuda_emulated_backend();
  const tensor x = device.allocate(dtype::f32, {4});
  std::vector<float> ones(4, 1.0F), twos(4);
  device.write(x.view().data, ones.data(), x.bytes());
  device.run(op::combine_scores{4, x.as<float>(), 2, nullptr, 0, x.as<float>()});
  device.read(twos.data(), x.view().data, x.bytes());
  EXPECT_EQ(twos, std::vector<float>(4, 2.0F));
  // Whatever it says: Oniguruma's library has a regcomp of its own, so no regular expression here.
  const auto touch = [&] { EXPECT_DEATH(x.as<float>()[0] = 1, ::testing::Ge(std::string())); };
  if (!sanitized) touch();  // a sanitizer takes the signal
  cuda::set_emulation(before);
}

// The check has teeth: an array on the host is refused.
TEST(device_memory, host_memory_is_refused) {
  if (!cuda::checks_arguments) GTEST_SKIP() << "this compiler cannot clear padding";
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, false, true});
  std::vector<float> x(8, 1.0F);
  EXPECT_THROW(cuda_emulated_backend().run(op::round_bf16{8, x.data()}),
               cuda::emulator::emulation_error);
  cuda::set_emulation(before);
}

}  // namespace
}  // namespace unmask
