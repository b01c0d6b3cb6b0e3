// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities: with its knob open a method equals its baseline token for token.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

TEST(limits, vanilla_threshold_above_one_is_one_token_per_step) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(3, 16);
  const auto schedule = decode_closed(*model, "vanilla", {{"block_length", 8}}, requests, 1);
  const auto open =
      decode_closed(*model, "vanilla", {{"block_length", 8}, {"threshold", 1.5}}, requests, 1);
  EXPECT_EQ(outputs(schedule), outputs(open));
  EXPECT_EQ(schedule.steps, open.steps);
  EXPECT_EQ(schedule.steps, 3 * 16);
}

TEST(limits, vanilla_threshold_zero_point_nothing_takes_a_block_at_once) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(2, 16);
  const auto r =
      decode_closed(*model, "vanilla", {{"block_length", 8}, {"threshold", 1e-9}}, requests, 1);
  // Two blocks, one step each; a position decided as the mask id may ask for more.
  for (const decoded_answer& a : r.answers) EXPECT_GE(a.counters.forwards, 2);
  EXPECT_LT(r.steps, 2 * 16);
}

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

// A causal model decoded with a cache equals the same model run over the whole prefix each time.
TEST(limits, autoregressive_cache_equals_recomputation) {
  const auto model = tiny_model(model_family::qwen3, reference_backend());
  const auto requests = tiny_requests(2, 9);
  const parameter_map none = {{"stop", false}};
  const auto whole = decode_closed(*model, "autoregressive", none, requests, 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sequence_request growing = requests[i];
    growing.gen_length = 1;
    for (const std::int32_t expected : whole.answers[i].output) {
      const auto one = decode_closed(*model, "autoregressive", none, {growing}, 1);
      ASSERT_EQ(one.answers[0].output, std::vector<std::int32_t>{expected});
      growing.prompt.push_back(expected);
    }
  }
}

// Dream's quota: the published example 32 tokens in 32 steps gives 0, 1, ..., 1, 2.
TEST(limits, dream_schedule_decides_nothing_first_and_two_last) {
  const auto model = tiny_model(model_family::dream, reference_backend());
  std::vector<int> committed;
  struct recorder : step_observer {
    std::vector<int>& to;
    explicit recorder(std::vector<int>& t) : to(t) {}
    void on_step(const step_view& s) override {
      int n = 0;
      for (int c = 0; c < s.candidates.count; ++c) n += s.candidates.accept.as<std::uint8_t>()[c];
      to.push_back(n);
    }
  } watcher(committed);
  decode_closed(*model, "vanilla", {}, tiny_requests(1, 32), 1, "", &watcher);
  ASSERT_EQ(committed.size(), 32U);
  EXPECT_EQ(committed.front(), 0);
  EXPECT_EQ(committed.back(), 2);
  for (std::size_t i = 1; i + 1 < committed.size(); ++i) EXPECT_EQ(committed[i], 1) << i;
}

}  // namespace
}  // namespace unmask
