// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Without delimiters AdaBlock's blocks have their usual length.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map sure = {{"block_length", 8}, {"threshold", 0.4}};

std::string every_token() {
  std::string ids = "0";
  for (int v = 1; v < 61; ++v) ids += "," + std::to_string(v);
  return ids;
}

TEST(limits_adablock, without_delimiters_blocks_have_their_usual_length) {
  for (const parameter_map& none :
       std::vector<parameter_map>{{{"delimiter_threshold", 2.0}, {"delimiter_ids", every_token()}},
                                  {{"delimiter_ids", std::string()}},
                                  {{"window_fraction", 0.0}, {"delimiter_ids", every_token()}}}) {
    const auto of = [&](model_family family, const char* cache) {
      return decode_rows(family, "adablock",
                         with(with(sure, none), {{"cache", std::string(cache)}}));
    };
    const parameter_map schedule = {{"schedule", std::string("llada")}};
    EXPECT_TRUE(of(model_family::llada, "none") ==
                decode_rows(model_family::llada, "vanilla", with(sure, schedule)));
    // fast_dllm spends a second forward on a block that its first one has cleaned, which is lost.
    EXPECT_EQ(of(model_family::llada, "dual").answers,
              decode_rows(model_family::llada, "fast_dllm", sure).answers);
    EXPECT_EQ(of(model_family::llada, "prefix").answers,
              decode_rows(model_family::llada, "fast_dllm",
                          with(sure, {{"cache", std::string("prefix")}}))
                  .answers);
    EXPECT_EQ(of(model_family::dream, "dual").answers,
              decode_rows(model_family::dream, "fast_dllm", sure).answers);
  }
}

// Every token is a delimiter: a block ends at the most confident position of its window, which the
// forward that opens it decides.
TEST(limits_adablock, any_delimiter_ends_a_block_at_the_surest_position) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const parameter_map any = {{"delimiter_ids", every_token()},
                             {"delimiter_threshold", 0.0},
                             {"cache", std::string("none")}};
  struct borders final : step_observer {
    std::vector<std::int32_t> first;
    void on_step(const step_view& s) override {
      const sequence_step& step = s.plan.of[0];
      if (step.step != 0) return;
      const std::int32_t* position = s.candidates.position.as<std::int32_t>();
      const float* probability = s.candidates.probability.as<float>();
      std::int32_t best = -1;
      for (std::int32_t c = 0; c < s.candidates.count; ++c) {
        if (position[c] < step.block_first || position[c] >= step.block_first + 6) continue;
        if (best < 0 || probability[c] > probability[best]) best = c;
      }
      ASSERT_GE(best, 0);
      if (!first.empty()) {
        EXPECT_EQ(step.block_first, next);
      }
      first.push_back(step.block_first);
      next = position[best] + 1;
      EXPECT_EQ(s.candidates.accept.as<std::uint8_t>()[best], 1);
    }
    std::int32_t next = 0;
  } seen;
  const auto requests = tiny_requests(1, 24);
  decode_closed(*model, "adablock", with(sure, any), requests, 1, "", &seen);
  const auto end = static_cast<std::int32_t>(requests[0].prompt.size()) + 24;
  EXPECT_EQ(seen.next, end);
  EXPECT_GE(seen.first.size(), 4U);  // a window has a quarter of the canvas
}

TEST(limits_adablock, refuses_what_is_not_published) {
  const model_config dream = tiny_config(model_family::dream);
  EXPECT_NE(refusal_of("adablock", dream, {{"cache", std::string("prefix")}}), "");
  EXPECT_EQ(refusal_of("adablock", dream, {{"delimiter_ids", std::string("3,x")}}),
            "adablock: delimiter_ids must be token ids with commas, not '3,x'");
}

}  // namespace
}  // namespace unmask::testing
