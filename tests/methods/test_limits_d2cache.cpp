// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of the methods that compute rows by what attention says or by a window: d2cache,
// streaming_dllm.
#include <gtest/gtest.h>

#include <cmath>

#include "methods/d2cache/row_choice.h"
#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

struct decoded_rows {
  std::vector<std::vector<std::int32_t>> answers;
  std::vector<std::int64_t> forwards, rows;
  bool operator==(const decoded_rows&) const = default;
};

decoded_rows decode_rows(model_family family, const std::string& method,
                         const parameter_map& given) {
  const auto model = tiny_model(family, reference_backend());
  const auto r = decode_closed(*model, method, given, tiny_requests(4, 24), 2);
  decoded_rows d{outputs(r), {}, {}};
  for (const decoded_answer& a : r.answers) {
    d.forwards.push_back(a.counters.forwards);
    d.rows.push_back(a.counters.rows);
  }
  return d;
}

// All masks and all importance: every row is computed, and one token a forward is vanilla's schedule.
TEST(limits_d2cache, where_every_row_is_computed_it_is_vanilla) {
  const parameter_map all = {
      {"block_length", 8}, {"current_k", 24}, {"rollout_p", 1.0}, {"cp_sigma", 0.0}};
  EXPECT_TRUE(decode_rows(model_family::llada, "d2cache", all) ==
              decode_rows(model_family::llada, "vanilla", {{"block_length", 8}}));
  const parameter_map sure = {{"threshold", 0.4}};
  EXPECT_TRUE(decode_rows(model_family::llada, "d2cache", with(all, sure)) ==
              decode_rows(model_family::llada, "vanilla",
                          with({{"block_length", 8}, {"schedule", std::string("llada")}}, sure)));
}

TEST(limits_d2cache, a_smaller_share_computes_fewer_rows) {
  const auto rows = [](double share) {
    const decoded_rows d =
        decode_rows(model_family::llada, "d2cache",
                    {{"block_length", 8}, {"current_k", 6}, {"rollout_p", share}});
    std::int64_t all = 0;
    for (const std::int64_t n : d.rows) all += n;
    return all;
  };
  EXPECT_LT(rows(0.05), rows(0.5));
  EXPECT_LT(rows(0.5), rows(0.95));
}

TEST(limits_d2cache, densities_are_those_of_the_equation) {
  constexpr std::int32_t n = 7;
  constexpr double sigma = 2.5;
  d2::decided_density density;
  density.start(n, sigma);
  std::vector<double> m(3 * n, 0.0);
  std::fill_n(m.begin(), n, 1.0);
  const auto g = [&](std::int32_t d) {
    return std::exp(-static_cast<double>(d) * d / (2 * sigma * sigma));
  };
  double all = 0;
  for (std::int32_t d = -3 * n; d < 3 * n; ++d) all += g(d);
  const auto check = [&] {
    for (std::int32_t i = 0; i < n; ++i) {
      double sum = 0;
      for (std::int32_t j = -n; j < 2 * n; ++j)
        sum += m[static_cast<std::size_t>(j + n)] * g(i - j);
      EXPECT_NEAR(density.at(i), sum / all, 1e-12) << i;
    }
  };
  check();
  for (const std::int32_t p : {3, 0, 6}) {
    density.decide(p);
    m[static_cast<std::size_t>(p + n)] = 1;
    if (p == n - 1) std::fill(m.end() - n, m.end(), 1.0);  // what lies behind is as the last one
    check();
  }
}

// Two of six masks by confidence, the block's first; one token decided; then importance, then gaps.
TEST(limits_d2cache, rows_are_chosen_in_the_order_of_the_code) {
  d2::decided_density density;
  density.start(6, 1e6);  // flat, so that confidences rank
  const std::vector<float> importance = {5, 1, 1, 9, 1, 1, 1, 1, 2};
  d2::row_evidence e{.prompt = 3,
                     .masked = {0, 1, 1, 1, 1, 1},
                     .open = {1, 1, 1, 0, 0, 0},
                     .decided = {1, 0, 0, 0, 0, 0},
                     .confidence = {0.9F, 0.1F, 0.2F, 0.8F, 0.7F, 0.3F},
                     .density = &density,
                     .importance = importance.data()};
  using flags = std::vector<std::uint8_t>;
  // Free: 5 1 1 at the prompt, 1 1 2 at the end, 11 in all; half of it is the first alone.
  EXPECT_EQ(d2::choose_rows({2, 0.5, 0, false}, e), (flags{1, 0, 0, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(d2::choose_rows({2, 0.0, 0, false}, e), (flags{1, 0, 0, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(d2::choose_rows({2, 0.5, 3, false}, e), (flags{1, 1, 1, 1, 1, 1, 0, 0, 0}));
  // Rows that predict are one to the left; position 0 was not chosen, so the prompt's last row goes.
  EXPECT_EQ(d2::choose_rows({2, 1.0, 0, true}, e), (flags{1, 1, 0, 1, 1, 1, 1, 1, 1}));
  // Between neighbours lies nothing.
  EXPECT_EQ(d2::choose_rows({2, 0.0, 0, false}, e), d2::choose_rows({2, 0.0, 1, false}, e));
}

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
