// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Without edits llada21 is llada2 with a step a position.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

const parameter_map loop = {{"block_length", 8}, {"threshold", 0.3}, {"stop", "none"}};
const parameter_map edits = {{"editing_threshold", 0.15}, {"max_post_steps", 3}};

TEST(limits_llada2, without_edits_llada21_is_llada2_with_a_step_a_position) {
  const auto model = tiny_model(model_family::llada2_moe, reference_backend());
  const auto requests = tiny_requests(4, 20);
  const auto plain = decode_closed(*model, "llada2", with(loop, {{"steps", 8}}), requests, 2);
  const auto never = [&](int post) {
    const parameter_map off = {{"editing_threshold", 1.0}, {"max_post_steps", post}};
    return decode_closed(*model, "llada21", with(loop, off), requests, 2);
  };
  const auto edited = never(0), looked = never(1);
  EXPECT_EQ(outputs(edited), outputs(plain));
  EXPECT_EQ(outputs(looked), outputs(plain));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& p = plain.answers[i].counters;
    EXPECT_EQ(edited.answers[i].counters.forwards, p.forwards);
    EXPECT_EQ(edited.answers[i].counters.replaced, 0);
    // One forward more for every block, which finds it quiet and so saves its commit.
    EXPECT_EQ(looked.answers[i].counters.denoise_steps, p.denoise_steps + (p.commit_forwards + 1));
    EXPECT_EQ(looked.answers[i].counters.commit_forwards, 0);
  }
}

TEST(limits_llada2, edits_are_counted_apart_from_decisions) {
  const auto model = tiny_model(model_family::llada2_moe, reference_backend());
  const auto requests = tiny_requests(4, 16);
  const auto r = decode_closed(*model, "llada21", with(loop, edits), requests, 2);
  std::int64_t replaced = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& c = r.answers[i].counters;
    // Whole blocks behind the prompt: each of their masks was taken once.
    const auto prompt = static_cast<std::int64_t>(requests[i].prompt.size());
    EXPECT_EQ(c.committed, (prompt + 16 + 7) / 8 * 8 - prompt);
    EXPECT_EQ(c.reopened, 0);
    EXPECT_LE(c.flips, c.replaced);
    replaced += c.replaced;
  }
  EXPECT_GT(replaced, 0);
}

}  // namespace
}  // namespace unmask::testing
