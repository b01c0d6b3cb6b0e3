// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// d2Cache that computes every row is vanilla.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "methods/d2cache/row_choice.h"
#include "tests/methods/limits.h"

namespace unmask::testing {
namespace {

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

}  // namespace
}  // namespace unmask::testing
