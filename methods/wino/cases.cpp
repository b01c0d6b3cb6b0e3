// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// WINO that reopens nothing is a threshold.
#include <gtest/gtest.h>

#include "harness/engine/latency.h"
#include "tests/methods/limits.h"
#include "tests/registered.h"

namespace unmask::testing {
namespace {

decoded by_threshold(double threshold) {
  return decode_on_cpu(
      "vanilla",
      {{"block_length", 8}, {"threshold", threshold}, {"schedule", std::string("llada")}});
}

const parameter_map uncapped = {
    {"block_length", 8}, {"cap_share", 1.0}, {"min_cap", 4096}, {"max_cap", 4096}};

TEST(limits_wino, nothing_above_the_threshold_is_one_token_a_forward) {
  for (const char* variant : {"official", "port"}) {
    const parameter_map given = {
        {"block_length", 8}, {"threshold", 1.5}, {"variant", std::string(variant)}};
    EXPECT_TRUE(decode_on_cpu("wino", given) == by_threshold(1.5)) << variant;
  }
}

// The official rule is strict: a threshold that no confidence equals is as strict.
TEST(limits_wino, nothing_reopened_is_the_threshold_rule) {
  for (const char* variant : {"official", "port"}) {
    const parameter_map given = {
        {"threshold", 0.35}, {"threshold_back", 0.0}, {"variant", std::string(variant)}};
    EXPECT_TRUE(decode_on_cpu("wino", with(uncapped, given)) == by_threshold(0.35)) << variant;
  }
  const auto reopening = [](double threshold_back) {
    return decode_on_cpu(
        "wino", {{"block_length", 8}, {"threshold", 0.1}, {"threshold_back", threshold_back}});
  };
  EXPECT_TRUE(reopening(0.9) != reopening(0));
}

// Prompt P, canvas 24 in blocks of 8: every forward has P + 24 + 8 rows. A canvas row sees P + 24 keys,
// a shadow row one less and the 8 of the shadow. What was taken less what was reopened is the answer.
TEST(limits_wino, work_by_hand) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const auto requests = tiny_requests(3, 24);
  const parameter_map given = {{"block_length", 8}, {"threshold", 0.1}, {"threshold_back", 0.9}};
  const auto r = decode_closed(*model, "wino", given, requests, 2);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& n = r.answers[i].counters;
    const auto canvas = static_cast<double>(requests[i].prompt.size() + 24);
    EXPECT_EQ(n.rows, n.forwards * static_cast<std::int64_t>(canvas + 8));
    EXPECT_DOUBLE_EQ(n.keys_seen, static_cast<double>(n.forwards) * model->config().layers *
                                      (canvas * canvas + 8 * (canvas - 1 + 8)));
    EXPECT_EQ(n.keys_hidden, 0);
    EXPECT_GT(n.reopened, 0);
    EXPECT_EQ(n.committed, 24);
  }
}

// Prompts of 40 tokens. A forward has the canvas and a shadow of its block; answers are of whole blocks:
// 256 tokens in blocks of 32, and 240 in blocks of 40, as the workload's answers are multiples of 80.
TEST(limits_wino, a_measured_clock_has_room_for_the_shadow) {
  latency_grid grid;
  grid.batches = {1, 3};
  grid.context = 40;
  grid.repeats = 2;
  const model_config config = tiny_config(model_family::llada);
  const auto check = [&](const parameter_map& given, std::int64_t rows_of_one) {
    const auto make = [&](std::int32_t) { return test::recipe_of("wino", config, given); };
    const std::int32_t rows = latency_rows(config, make, grid);
    EXPECT_EQ(rows, 3 * rows_of_one);
    const auto model = tiny_model(model_family::llada, cpu_backend(), rows);
    const auto samples = measure_latency(*model, make, grid);
    ASSERT_EQ(samples.size(), 2U);
    EXPECT_EQ(samples[0].rows, rows_of_one);
    EXPECT_EQ(samples[1].rows, 3 * rows_of_one);
  };
  check({}, 40 + 256 + 32);
  grid.answer_unit = 80;
  check({{"block_length", 40}}, 40 + 240 + 40);
}

}  // namespace
}  // namespace unmask::testing
