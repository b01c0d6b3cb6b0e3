// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the emulated device refuses as a GPU would: bad input that a kernel sees, and memory of the
// host.
#include "harness/decode/kernels/features.h"
#include "kernels/decisions.h"
#include "kernels/selection.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using indices = std::vector<std::int32_t>;

// Bad input that only a kernel sees is reported at the next wait.
TEST(device_memory, faults_are_reported_when_the_host_waits) {
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, true, false});
  const ops& device = cuda_emulated_ops();
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

// The check has teeth: an array on the host is refused.
TEST(device_memory, host_memory_is_refused) {
  if (!cuda::checks_arguments) GTEST_SKIP() << "this compiler cannot clear padding";
  const cuda::emulation before = cuda::current_emulation();
  cuda::set_emulation({{}, false, true});
  std::vector<float> x(8, 1.0F);
  EXPECT_THROW(cuda_emulated_ops().run(op::round_bf16{8, x.data()}),
               cuda::emulator::emulation_error);
  cuda::set_emulation(before);
}

}  // namespace
}  // namespace unmask
