// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Without runs the hierarchical rule is a threshold.
#include <gtest/gtest.h>

#include "harness/decode/step_loop.h"
#include "tests/methods/limits.h"
#include "tests/registered.h"

namespace unmask::testing {
namespace {

const parameter_map blocks = {{"block_length", 8}};
const parameter_map endless = {{"stop", std::string("none")}};

TEST(limits_hierarchical, without_runs_it_is_a_threshold) {
  const auto of = [](double threshold) {
    const parameter_map given = {{"low_threshold", 1.0}, {"threshold", threshold}};
    return decode(model_family::llada, "hierarchical", with(with(blocks, endless), given));
  };
  EXPECT_TRUE(of(1.0) == one_by_one());
  EXPECT_TRUE(of(0.35) == threshold_rule(0.35));
  EXPECT_TRUE(of(0.35) != of(1.0));
}

// In the first forward of a block of n masks all of them are one run, so one is decided; two runs
// follow, and so on: the tokens of k forwards are at most 1 + 2 + 4 + ...
TEST(limits_hierarchical, runs_double_at_most) {
  const parameter_map any = {{"low_threshold", 0.0}};
  const decoded d = decode(model_family::llada, "hierarchical", with(with(blocks, endless), any));
  for (const std::int64_t forwards : d.forwards) EXPECT_GE(forwards, 3 * 4);
  EXPECT_TRUE(d != one_by_one());
}

// A stop id ends the answer with its block. What then lies behind it, that id or masks, was not decided
// and is no part of the answer.
TEST(limits_hierarchical, a_stop_id_ends_the_answer_with_its_block) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto requests = tiny_requests(4, 24);
  const auto of = [&](const std::string& stop, bool early) {
    const parameter_map given = {{"low_threshold", 0.1}, {"stop", stop}, {"early_stop", early}};
    return decode_closed(*model, "hierarchical", with(blocks, given), requests, 2);
  };
  const auto whole = of("none", true);
  const std::int32_t stop = whole.answers[0].output[3];  // in the first block
  for (const bool early : {true, false}) {
    const decoded_answer ended = of(std::to_string(stop), early).answers[0];
    const auto& all = whole.answers[0].output;
    EXPECT_EQ(ended.output, (std::vector<std::int32_t>(all.begin(), all.begin() + 8)));
    EXPECT_LT(ended.counters.forwards, whole.answers[0].counters.forwards);
    EXPECT_EQ(ended.counters.committed, 8);
  }
}

// The canvas behind the answer, as the official loops return it.
TEST(limits_hierarchical, early_stop_fills_the_canvas_behind_the_answer) {
  const auto model = tiny_model(model_family::llada, reference_backend());
  const auto canvas_of = [&](const std::string& stop, bool early) {
    const parameter_map given = {{"low_threshold", 0.1}, {"stop", stop}, {"early_stop", early}};
    step_loop loop(*model, test::recipe_of("hierarchical", model->config(), with(blocks, given)),
                   {1, 80, 0});
    loop.admit(tiny_requests(1, 24)[0]);
    while (loop.step()) {
    }
    return loop.canvas(0);
  };
  const std::int32_t stop = canvas_of("none", true)[3];
  const auto filled = canvas_of(std::to_string(stop), true);
  const auto masked = canvas_of(std::to_string(stop), false);
  EXPECT_EQ(std::count(filled.begin() + 8, filled.end(), stop), 16);
  EXPECT_EQ(std::count(masked.begin() + 8, masked.end(), model->config().mask_id), 16);
}

}  // namespace
}  // namespace unmask::testing
