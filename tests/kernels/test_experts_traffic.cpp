// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the experts' newer kernel reads and writes, as the emulator counts it.
#include "kernels/cuda/device/traffic.h"
#include "kernels/moe.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

// Two experts with 150 of 150 rows each, and widths of whole sectors. Results pass through shared memory without
// lanes that meet in a bank. Each is stored once, and each request touches the sectors that its bytes need.
TEST(experts_traffic, roles_leave_and_store_whole_pieces) {
  if (!cuda::emulator::sees_accesses()) GTEST_SKIP() << "accesses are not seen in this build";
  const backend& device =
      cuda_emulated_backend(cuda::choices{.graphs = false, .newer = true, .left_out = {}});
  constexpr std::int64_t rows = 150, width = 272, hidden = 144, each = 2;
  std::mt19937 rng(3);
  moe_experts experts;
  experts.hidden = hidden;
  for (int e = 0; e < each; ++e) {
    std::vector<float> up = test::random_vector(rng, 2 * hidden * width, 0.2F),
                       down = test::random_vector(rng, hidden * width, 0.2F);
    experts.gate_up.push_back(
        device.pack(make_view(up.data(), dtype::f32, {2 * hidden, width}), weight_format::bf16));
    experts.down.push_back(
        device.pack(make_view(down.data(), dtype::f32, {width, hidden}), weight_format::bf16));
  }
  std::vector<std::int32_t> expert;
  std::vector<float> weight(static_cast<std::size_t>(rows * each), 0.5F);
  for (std::int64_t r = 0; r < rows; ++r) expert.insert(expert.end(), {0, 1});
  test::grid x({rows, width}), y({rows, width});
  x.randomize(rng);
  y.randomize(rng);
  cuda::emulator::begin_counting();
  device.run(op::moe_feed_forward{x, make_view(expert.data(), dtype::i32, {rows, each}),
                                  make_view(weight.data(), dtype::f32, {rows, each}), experts, y});
  device.synchronize();
  const auto work = cuda::emulator::end_counting();
  const auto& k = work.kernels.at("grouped_roles");
  EXPECT_EQ(k.launches, 2U);
  EXPECT_GT(k.shared_waves, 0U);
  EXPECT_EQ(k.shared_excess, 0U);
  EXPECT_EQ(k.written.bytes, std::uint64_t{2} * rows * each * (width + hidden));
  EXPECT_EQ(k.written.excess, 0U);
  EXPECT_EQ(k.written.uncoalesced, 0U);
}

}  // namespace
}  // namespace unmask
