// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Streaming-dLLM with the whole suffix is Fast-dLLM's prefix cache.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map streamed = {{"block_length", 8}, {"threshold", 0.4}, {"early_exit", false}};

TEST(limits_streaming_dllm, with_the_whole_suffix_and_no_alpha_it_is_fast_dllm) {
  const decoded_rows whole =
      decode_rows(model_family::llada, "streaming_dllm",
                  with(streamed, {{"window_size", 24}, {"confidence_alpha", 0.0}}));
  // fast_dllm spends a second forward on a block that its first one has cleaned.
  EXPECT_EQ(whole.answers,
            decode_rows(model_family::llada, "fast_dllm",
                        {{"block_length", 8}, {"threshold", 0.4}, {"cache", std::string("prefix")}})
                .answers);
  EXPECT_TRUE(whole == decode_rows(model_family::llada, "dpad",
                                   {{"block_length", 8},
                                    {"threshold", 0.4},
                                    {"cache", std::string("prefix")},
                                    {"dropout", std::string("none")},
                                    {"early_termination", false}}));
}

TEST(limits_streaming_dllm, alpha_lowers_the_threshold_and_saves_forwards) {
  const auto forwards = [](double alpha) {
    const decoded_rows d = decode_rows(
        model_family::llada, "streaming_dllm",
        with(streamed, {{"threshold", 0.98}, {"window_size", 2}, {"confidence_alpha", alpha}}));
    std::int64_t all = 0;
    for (const std::int64_t n : d.forwards) all += n;
    return all;
  };
  EXPECT_LT(forwards(1.0), forwards(0.0));
}

TEST(limits_streaming_dllm, the_rows_are_block_window_and_last_position) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct rows final : step_observer {
    void on_step(const step_view& s) override {
      const sequence_step& step = s.plan.of[0];
      const std::int32_t length = s.state.at(0).length, rest = length - step.block_last;
      const std::int32_t kept = rest <= 3 ? rest : 4;
      EXPECT_EQ(s.entered.rows, step.block_last - step.first + kept);
      EXPECT_EQ(step.kv_length, step.block_last + kept);
      if (rest > 0) {
        EXPECT_EQ(s.entered.position[s.entered.rows - 1], length - 1);
      }
    }
  } watch;
  decode_closed(*model, "streaming_dllm", with(streamed, {{"window_size", 3}}),
                tiny_requests(1, 24), 1, "", &watch);
}

}  // namespace
}  // namespace unmask::testing
