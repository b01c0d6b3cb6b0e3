// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/experiment/forecast.h"

namespace unmask {
namespace {

method_info with(const row_shape& shape) {
  method_info m;
  m.name = "planted";
  m.shape = shape;
  return m;
}

model_config sdar() {
  return read_model_config(std::string(UNMASK_SOURCE_DIR) + "/experiments/shapes/sdar-8b");
}

TEST(expected_time, rows_are_those_that_the_method_declares) {
  const cost_run run{100, 8, 1000, 256, 64};
  const parameters none({});
  const auto rows = [&](const row_shape& shape) {
    return cost_run_of(sdar(), with(shape), none, run).rows;
  };
  EXPECT_EQ(rows({row_extent::canvas}), 1256);
  EXPECT_EQ(rows({row_extent::answer, 0.5}), 128);
  EXPECT_EQ(rows({row_extent::block}), 32);
  EXPECT_EQ(rows({row_extent::chunk}), 8);
  EXPECT_EQ(rows({row_extent::token}), 1);
  const parameters given({{"block_length", 16}, {"chunk", 4}});
  EXPECT_EQ(cost_run_of(sdar(), with({row_extent::block}), given, run).rows, 16);
  EXPECT_EQ(cost_run_of(sdar(), with({row_extent::chunk}), given, run).rows, 4);
}

TEST(expected_time, refreshes_and_prompts_are_counted_once) {
  const cost_run run{1, 1, 1000, 256, 64};
  const parameters none({});
  const cost_run refreshed = cost_run_of(sdar(), with({row_extent::block, 1, 0, true}), none, run);
  EXPECT_EQ(refreshed.full_forwards, 8);
  EXPECT_FALSE(refreshed.prefills);
  const cost_run blocks = cost_run_of(sdar(), with({row_extent::block}), none, run);
  EXPECT_EQ(blocks.full_forwards, 0);
  EXPECT_TRUE(blocks.prefills);
  const cost_run unknown = cost_run_of(sdar(), with({row_extent::block}), none, {1, 1, 0, 256, 0});
  EXPECT_EQ(unknown.forwards, 256) << "one per token when nobody knows";
}

TEST(expected_time, a_cache_is_cheaper_than_none) {
  const cost_run run{100, 8, 1000, 256, 64};
  const parameters none({});
  const auto seconds = [&](const row_shape& shape) {
    return expected_gpu_seconds(sdar(), with(shape), none, run, ceilings_of("h100"));
  };
  const double whole = seconds({row_extent::canvas});
  const double cached = seconds({row_extent::block, 1, 0, true});
  const double evicting = seconds({row_extent::block, 0.6, 0.2});
  EXPECT_GT(whole, 3 * cached);
  EXPECT_GT(cached, seconds({row_extent::block}));
  EXPECT_GT(seconds({row_extent::block}), evicting);
}

// The published shapes have the sizes that the cost model's own tests write out.
TEST(expected_time, shapes_are_those_of_the_checkpoints) {
  const std::string folder = std::string(UNMASK_SOURCE_DIR) + "/experiments/shapes/";
  const cost_shape a3b = cost_shape_of(read_model_config(folder + "sdar-30b-a3b"));
  EXPECT_EQ(a3b.layers, 48);
  EXPECT_EQ(a3b.kv_heads, 4);
  EXPECT_EQ(a3b.moe.experts, 128);
  EXPECT_EQ(a3b.moe.hidden, 768);
  EXPECT_NEAR(static_cast<double>(read_model_config(folder + "sdar-30b-a3b").parameters()), 30.5e9,
              0.1e9);
  const cost_shape mini = cost_shape_of(read_model_config(folder + "llada2-mini"));
  EXPECT_EQ(mini.moe.first_dense_layers, 1);
  EXPECT_EQ(mini.moe.shared_experts, 1);
}

}  // namespace
}  // namespace unmask
