// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/minimal_method/minimal_operation.h"

#include "tests/kernels/operation_test.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

TEST(minimal, accepts_the_leftmost) {
  test::check_operation([](test::operands& at, const std::vector<int>& sequences) {
    std::vector<std::int64_t> counts;
    std::vector<std::int32_t> begin{0}, quota;
    for (const int s : sequences) {
      counts.push_back(s * 17 % 70);  // also none, and more than a warp has lanes
      begin.push_back(begin.back() + static_cast<std::int32_t>(counts.back()));
      quota.push_back(s % 5 * 9);
    }
    candidate_set candidates;
    candidates.sequences = static_cast<std::int32_t>(sequences.size());
    candidates.count = begin.back();
    candidates.begin = at.in(begin);
    return op::accept_leftmost{candidates, at.in(quota), at.out<std::uint8_t>(counts)};
  });
}

// One token per step from the left: the answer of a canvas is decided in the order of its positions.
TEST(minimal, decodes_from_left_to_right) {
  const auto model = testing::tiny_model(model_family::llada, cpu_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  const parameter_map given = {{"block_length", 4}};
  const auto minimal = testing::decode_closed(*model, "minimal", given, {request}, 1);
  const auto vanilla = testing::decode_closed(*model, "vanilla", given, {request}, 1);
  EXPECT_EQ(minimal.answers[0].counters.forwards, vanilla.answers[0].counters.forwards);
  EXPECT_EQ(minimal.answers[0].counters.head_rows, 4 + 3 + 2 + 1);
  EXPECT_EQ(minimal.answers[0].output.size(), 4U);
}

}  // namespace
}  // namespace unmask
