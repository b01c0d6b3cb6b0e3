// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Blocks that open one after the other are block diffusion.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

// No token of a block before its predecessor is complete: when blocks open is all the same.
TEST(limits_multi_block, nothing_above_the_threshold_decides_block_after_block) {
  for (const model_family family : {model_family::llada, model_family::dream, model_family::sdar}) {
    const parameter_map strict = {
        {"block_length", 8}, {"threshold", 1.5}, {"activation_threshold", 1.0}};
    const auto of = [&](double add, std::int64_t most) {
      const parameter_map given = {{"add_block_threshold", add}, {"max_blocks", most}};
      return decode_on_cpu("multi_block", with(strict, given), family);
    };
    const decoded one = of(1, 0);
    for (const double add : {0.0, 0.3}) {
      EXPECT_EQ(of(add, 0).answers, one.answers);
      EXPECT_EQ(of(add, 2).answers, one.answers);
    }
  }
}

// A block opens in the forward that stores its predecessor: one block at a time, without commits.
TEST(limits_multi_block, whole_blocks_only_is_one_block_at_a_time) {
  const parameter_map given = {{"block_length", 8}, {"threshold", 0.3}};
  const decoded single =
      decode_on_cpu("multi_block", with(given, {{"max_blocks", 1}}), model_family::sdar);
  const decoded whole =
      decode_on_cpu("multi_block", with(given, {{"add_block_threshold", 1.0}}), model_family::sdar);
  EXPECT_EQ(whole.answers, single.answers);
  const auto requests = tiny_requests(4, 24);
  for (std::size_t i = 0; i < whole.forwards.size(); ++i) {
    // Of each block but the last one forward decides nothing; a prompt of whole blocks enters alone.
    const auto prompt = static_cast<std::int64_t>(requests[i].prompt.size());
    const std::int64_t blocks = (prompt + 24 + 7) / 8 - prompt / 8;
    EXPECT_EQ(whole.forwards[i], single.forwards[i] - (blocks - 1));
  }
  EXPECT_NE(decode_on_cpu("multi_block", given, model_family::sdar).answers, single.answers);
}

}  // namespace
}  // namespace unmask::testing
