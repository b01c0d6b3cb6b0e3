// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the method means: one token per step from the left.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

// The answer of a canvas is decided in the order of its positions.
TEST(minimal, decodes_from_left_to_right) {
  const auto model = testing::tiny_model(model_family::llada, cpu_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6}, 4, 0};
  const parameter_map given = {{"block_length", 4}};
  struct order final : step_observer {
    void on_step(const step_view& step) override {
      for (const decision_event& d : step.decisions) positions.push_back(d.position);
    }
    std::vector<std::int32_t> positions;
  } seen;
  const auto minimal = testing::decode_closed(*model, "minimal", given, {request}, 1, "", &seen);
  const auto vanilla = testing::decode_closed(*model, "vanilla", given, {request}, 1);
  EXPECT_EQ(seen.positions, (std::vector<std::int32_t>{6, 7, 8, 9}));
  EXPECT_EQ(minimal.answers[0].counters.forwards, vanilla.answers[0].counters.forwards);
  EXPECT_EQ(minimal.answers[0].counters.head_rows, 4 + 3 + 2 + 1);
  EXPECT_EQ(minimal.answers[0].output.size(), 4U);
}

}  // namespace
}  // namespace unmask
