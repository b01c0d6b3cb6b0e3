// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Block diffusion at the ends of its knobs, in both published life cycles of a block.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

TEST(limits, block_diffusion_threshold_above_one_is_the_static_rule_with_one_token) {
  for (const char* loop : {"engine", "hf"}) {
    const auto model = tiny_model(model_family::sdar, reference_backend());
    const auto requests = tiny_requests(3, 20);
    const parameter_map common = {{"loop", std::string(loop)}, {"stop", "none"}};
    parameter_map dynamic = common, fixed = common;
    dynamic["threshold"] = 1.5;
    fixed["remasking"] = "low_confidence_static";
    EXPECT_EQ(outputs(decode_closed(*model, "block_diffusion", dynamic, requests, 1)),
              outputs(decode_closed(*model, "block_diffusion", fixed, requests, 1)));
  }
}

// Without stop ids the two life cycles of a block decide the same tokens; only the forwards around
// them differ (official data agrees: 43 of 43 tokens).
TEST(limits, engine_and_hf_loops_decide_the_same_tokens) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(4, 19);
  const parameter_map none = {{"stop", "none"}};
  parameter_map hf = none;
  hf["loop"] = "hf";
  const auto a = decode_closed(*model, "block_diffusion", none, requests, 1);
  const auto b = decode_closed(*model, "block_diffusion", hf, requests, 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::vector<std::int32_t> cut = b.answers[i].output;
    ASSERT_GE(cut.size(), 19U);
    cut.resize(19);  // hf returns whole blocks
    EXPECT_EQ(a.answers[i].output, cut);
  }
}

// A baseline that draws answers by its seed.
TEST(limits_blocks, a_drawing_baseline_follows_its_seed) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  auto requests = tiny_requests(3, 16);
  const parameter_map given = {{"stop", "none"}};
  const auto first = outputs(decode_closed(*model, "block_diffusion", given, requests, 2, "hf"));
  EXPECT_EQ(outputs(decode_closed(*model, "block_diffusion", given, requests, 1, "hf")), first);
  for (sequence_request& r : requests) r.seed += 1;
  EXPECT_NE(outputs(decode_closed(*model, "block_diffusion", given, requests, 2, "hf")), first);
}

}  // namespace
}  // namespace unmask
