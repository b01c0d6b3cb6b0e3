// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Likelihoods of masked models: what the official code recorded (tests/goldens/evals/likelihood), and
// our own draws against the exact expectation over all masks.
#include "harness/decode/likelihood.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "harness/base/error.h"
#include "tests/goldens/replay/likelihood.h"
#include "tests/harness/workload/support.h"

namespace unmask {
namespace {

const std::filesystem::path evals =
    std::filesystem::path(UNMASK_SOURCE_DIR) / "tests/goldens/evals";

transformer tiny_llada() {
  const std::filesystem::path folder =
      std::filesystem::path(UNMASK_GOLDENS) / "models/tiny-llada-s1";
  const model_config config = read_model_config(folder);
  return transformer(config, load_weights(config, folder), cpu_backend(), weight_format::f32, 512);
}

TEST(likelihood, recorded_masks_give_the_recorded_losses) {
  const golden_results replay = replay_likelihood(evals, {UNMASK_GOLDENS}, cpu_backend());
  for (const std::string& reason : replay.not_run) ADD_FAILURE() << reason;
  int passed = 0;
  for (const golden_result& file : replay.files) {
    passed += file.passed;
    EXPECT_EQ(file.failed, 0) << file.file;
    for (const std::string& reason : file.first_failures) ADD_FAILURE() << reason;
  }
  EXPECT_EQ(passed, 12 + 7 + 4);
}

// Case tiny-llada-s1-04: the sum over all subsets, each with its probability.
TEST(likelihood, the_mean_over_seeds_approaches_the_exact_expectation) {
  const transformer model = tiny_llada();
  const std::vector<std::int32_t> prompt = {101, 28, 160, 75, 94, 112, 143, 190, 32};
  const std::vector<std::int32_t> answer = {49, 147, 12, 188};
  const double exact = -29.828354155774868;
  double sum = 0, squares = 0;
  constexpr int seeds = 60;
  double claimed = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    likelihood_settings s;
    s.seed = static_cast<std::uint64_t>(seed);
    s.mc_num = 64;
    const likelihood_estimate e = log_likelihood(model, prompt, answer, s, 7);
    EXPECT_EQ(e.rounds, 8);
    sum += e.log_likelihood;
    squares += e.log_likelihood * e.log_likelihood;
    claimed += e.standard_error / seeds;
  }
  const double mean = sum / seeds;
  const double spread = std::sqrt((squares / seeds - mean * mean) * seeds / (seeds - 1));
  EXPECT_NEAR(mean, exact, 4 * spread / std::sqrt(seeds));
  // The standard error that a result states is the spread that seeds really have.
  EXPECT_GT(claimed, 0.6 * spread);
  EXPECT_LT(claimed, 1.6 * spread);
}

TEST(likelihood, one_token_is_exact_and_needs_one_forward) {
  const transformer model = tiny_llada();
  const likelihood_estimate e = log_likelihood(model, {158, 196, 85, 96, 86, 188}, {18}, {}, 0);
  EXPECT_NEAR(e.log_likelihood, -13.641689678188563, 1e-4);
  EXPECT_EQ(e.forwards, 1);
  EXPECT_EQ(e.standard_error, 0);
}

// The value is the trainer's (PyTorch, float32) on the same exported weights.
TEST(likelihood, of_a_causal_model_is_the_sum_over_the_tokens) {
  const std::filesystem::path folder =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "experiments/models/tiny-ar";
  const model_config config = read_model_config(folder);
  const transformer model(config, load_weights(config, folder), cpu_backend(), weight_format::f32,
                          12);
  EXPECT_NEAR(
      causal_log_likelihood(model, {1020, 5, 117, 301, 44, 712, 1022}, {88, 412, 9, 640, 77}),
      -70.31203, 2e-3);
}

TEST(likelihood, draws_mask_what_the_rules_say) {
  likelihood_settings s;
  for (std::int32_t round = 0; round < 50; ++round) {
    std::set<std::int32_t> counts;
    for (const masked_row& row : draw_round(s, 8, 3, round)) {
      counts.insert(static_cast<std::int32_t>(row.positions.size()));
      EXPECT_DOUBLE_EQ(row.share, static_cast<double>(row.positions.size()) / 8);
    }
    EXPECT_EQ(counts.size(), 8U);  // eight rows of eight tokens: every count once
  }
  s.rule = likelihood_rule::dream;
  s.batch_size = 32;
  double masked = 0;
  for (std::int32_t round = 0; round < 50; ++round) {
    for (const masked_row& row : draw_round(s, 9, 3, round)) {
      for (const std::int32_t p : row.positions) EXPECT_LT(p, 8);  // the closing EOS stays
      masked += static_cast<double>(row.positions.size());
    }
  }
  EXPECT_NEAR(masked / (50 * 32 * 8), 0.5, 0.02);
}

TEST(likelihood, a_remainder_is_refused) {
  const transformer model = tiny_llada();
  likelihood_settings s;
  s.mc_num = 12;
  EXPECT_THROW(log_likelihood(model, {1, 2}, {3, 4}, s, 0), error);
  EXPECT_THROW(log_likelihood(model, {1, 2}, {}, {}, 0), error);
}

}  // namespace
}  // namespace unmask
