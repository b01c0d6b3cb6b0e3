// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A window of the whole canvas is the threshold rule on it.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

const parameter_map sure = {{"block_length", 8}, {"threshold", 0.4}};
const parameter_map uncached = {{"cache", std::string("none")}};

TEST(limits_dsb, a_window_of_the_canvas_is_the_threshold_rule_on_it) {
  const parameter_map whole = {{"block_length", 24}, {"threshold", 0.4}};
  const parameter_map schedule = {{"schedule", std::string("llada")}};
  for (const model_family family : {model_family::llada, model_family::dream}) {
    const decoded_rows vanilla = decode_rows(family, "vanilla", with(whole, schedule));
    EXPECT_TRUE(decode_rows(family, "dsb", with(whole, uncached)) == vanilla);
  }
  // With every row left of the window computed, DSB Cache computes all.
  EXPECT_TRUE(decode_rows(model_family::llada, "dsb", with(whole, {{"prefix_window", 1000}})) ==
              decode_rows(model_family::llada, "vanilla", whole));
}

TEST(limits_dsb, a_cache_that_computes_every_row_changes_no_token) {
  const parameter_map all_rows = {{"prefix_window", 1000}, {"suffix_window", 1000}};
  for (const std::int64_t most : {-1, 8, 12}) {
    const parameter_map limit = {{"max_block_length", most}};
    const decoded_rows cached =
        decode_rows(model_family::llada, "dsb", with(with(sure, all_rows), limit));
    const decoded_rows none =
        decode_rows(model_family::llada, "dsb", with(with(sure, uncached), limit));
    EXPECT_EQ(cached.answers, none.answers) << most;
  }
}

TEST(limits_dsb, a_window_of_one_position_is_left_to_right) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct leftmost final : step_observer {
    void on_step(const step_view& s) override { EXPECT_EQ(s.candidates.count, 1); }
  } watch;
  const parameter_map one = {{"max_block_length", 1}, {"block_length", 1}};
  const auto r = decode_closed(*model, "dsb", with(with(sure, uncached), one), tiny_requests(1, 24),
                               1, "", &watch);
  EXPECT_EQ(r.answers[0].counters.forwards, 24);
}

// The greedy window holds as many masks as it began with until the canvas ends.
TEST(limits_dsb, a_greedy_window_keeps_its_number_of_masks) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  struct full_window final : step_observer {
    void on_step(const step_view& s) override {
      const std::int32_t length = s.state.at(0).length;
      if (s.plan.of[0].block_last < length) {
        EXPECT_EQ(s.candidates.count, 8);
      }
    }
  } watch;
  decode_closed(*model, "dsb", with(sure, uncached), tiny_requests(1, 48), 1, "", &watch);
}

TEST(limits_dsb, refuses_what_its_code_cannot_do) {
  const model_config dream = tiny_config(model_family::dream);
  EXPECT_NE(refusal_of("dsb", dream, {{"threshold", 0.0}}).find("threshold alone"),
            std::string::npos);
  EXPECT_NE(refusal_of("dsb", dream, {{"prefix_window", 0}}).find("prefix_window"),
            std::string::npos);
  EXPECT_NE(refusal_of("dsb", tiny_config(model_family::llada), {{"factor", 1.0}}).find("exclude"),
            std::string::npos);
}

}  // namespace
}  // namespace unmask::testing
