// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Ada-DLM's rule in blocks that freezes one token is block diffusion's static rule.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

const model_family families[] = {model_family::sdar, model_family::llada2_moe};

// A threshold in place of the freeze rule: block diffusion, row for row.
TEST(limits_ada_blocks, a_threshold_rule_is_block_diffusion) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    for (const double threshold : {0.2, 0.5, 0.9}) {
      const auto blocks =
          decode_closed(*model, "block_diffusion",
                        {{"threshold", threshold}, {"accept_compare", ">"}}, requests, 2);
      const auto frozen = decode_closed(
          *model, "ada_blocks", {{"rule", "threshold"}, {"threshold", threshold}}, requests, 2);
      EXPECT_EQ(outputs(frozen), outputs(blocks)) << threshold;
      EXPECT_EQ(frozen.steps, blocks.steps);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(frozen.answers[i].counters.rows, blocks.answers[i].counters.rows);
        EXPECT_EQ(frozen.answers[i].counters.commit_forwards,
                  blocks.answers[i].counters.commit_forwards);
      }
    }
  }
}

// K = 1 and one confidence: exactly the best token freezes, which is the static rule of one token
// per step.
TEST(limits_ada_blocks, one_token_per_step_is_the_static_rule) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 24);
    const auto blocks = decode_closed(*model, "block_diffusion",
                                      {{"remasking", "low_confidence_static"}}, requests, 2);
    const auto frozen =
        decode_closed(*model, "ada_blocks", {{"k_tokens", 1}, {"history", 1}}, requests, 2);
    EXPECT_EQ(outputs(frozen), outputs(blocks));
    EXPECT_EQ(frozen.steps, blocks.steps);
  }
}

// With its own defaults it decides more than one token per step, or the rule would not be there.
TEST(limits_ada_blocks, the_rule_decides_several_tokens) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  const auto requests = tiny_requests(3, 40);
  const parameter_map all = {{"stop", "none"}};
  std::int64_t committed = 0, steps = 0;
  for (const auto& a : decode_closed(*model, "ada_blocks", all, requests, 1).answers) {
    committed += a.counters.committed;
    steps += a.counters.denoise_steps;
  }
  EXPECT_GT(committed, steps);
}

TEST(limits_ada_blocks, refuses_by_name) {
  const auto message = [](model_family family, const parameter_map& given) {
    return refusal_of("ada_blocks", testing::tiny_config(family), given);
  };
  EXPECT_EQ(message(model_family::sdar, {}), "");
  for (const auto& [given, word] : std::vector<std::pair<parameter_map, std::string>>{
           {{{"steps", 4}}, "limit_to_quota"},
           {{{"w_clamp", true}, {"metric", "cosine"}}, "w_clamp"},
           {{{"boundary", "last"}, {"centroid", "tier_mean"}}, "tier_mean"}}) {
    const std::string text = message(model_family::sdar, given);
    EXPECT_NE(text.find("ada_blocks"), std::string::npos) << word;
    EXPECT_NE(text.find(word), std::string::npos) << text;
  }
  EXPECT_NE(message(model_family::llada, {}).find("ada_blocks"), std::string::npos);
}

}  // namespace
}  // namespace unmask
