// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <gtest/gtest.h>

#include "harness/plan/expected_time.h"

namespace unmask {
namespace {

method_info with(const row_shape& shape) {
  method_info m;
  m.name = "planted";
  m.shape = shape;
  m.parameters = {{.name = "window", .fact = pace_fact::block_length},
                  {.name = "chunk", .fact = pace_fact::chunk},
                  {.name = "block_length"}};
  return m;
}

model_config sdar() {
  return read_model_config(std::string(UNMASK_SOURCE_DIR) + "/experiments/shapes/sdar-8b");
}

TEST(expected_time, rows_are_those_that_the_method_declares) {
  const run_work run{100, 8, 1000, 256, 64};
  const parameters none({});
  const auto rows = [&](const row_shape& shape) {
    return work_of(sdar(), with(shape), none, run).rows;
  };
  EXPECT_EQ(rows({row_extent::canvas}), 1256);
  EXPECT_EQ(rows({row_extent::answer, 0.5}), 128);
  EXPECT_EQ(rows({row_extent::block}), 32);
  EXPECT_EQ(rows({row_extent::chunk}), 8);
  EXPECT_EQ(rows({row_extent::token}), 1);
  // By what a parameter says and not by its name.
  const parameters given({{"window", 16}, {"block_length", 8}, {"chunk", 4}});
  EXPECT_EQ(work_of(sdar(), with({row_extent::block}), given, run).rows, 16);
  EXPECT_EQ(work_of(sdar(), with({row_extent::chunk}), given, run).rows, 4);
}

TEST(expected_time, refreshes_and_prompts_are_counted_once) {
  const run_work run{1, 1, 1000, 256, 64};
  const parameters none({});
  const run_work refreshed = work_of(sdar(), with({row_extent::block, 1, true}), none, run);
  EXPECT_EQ(refreshed.full_forwards, 8);
  EXPECT_FALSE(refreshed.prefills);
  const run_work blocks = work_of(sdar(), with({row_extent::block}), none, run);
  EXPECT_EQ(blocks.full_forwards, 0);
  EXPECT_TRUE(blocks.prefills);
  const run_work unknown = work_of(sdar(), with({row_extent::block}), none, {1, 1, 0, 256, 0});
  EXPECT_EQ(unknown.forwards, 256) << "one per token when nobody knows";
}

TEST(expected_time, a_cache_is_cheaper_than_none) {
  const run_work run{100, 8, 1000, 256, 64};
  const parameters none({});
  const auto seconds = [&](const row_shape& shape, const row_traits& rows = {}) {
    return expected_seconds(sdar(), work_of(sdar(), with(shape), none, run, rows),
                            ceilings_of("h100"));
  };
  const double whole = seconds({row_extent::canvas});
  const double cached = seconds({row_extent::block, 1, true});
  const double evicting =
      seconds({row_extent::block, 0.6}, {.narrows_at = {0, 1}, .keeps = 1.0 / 3});
  EXPECT_GT(whole, 3 * cached);
  EXPECT_GT(cached, seconds({row_extent::block}));
  EXPECT_GT(seconds({row_extent::block}), evicting);
}

// 20 rows of a sequence enter, 5 are left. Each of the 36 layers that they reach as 5 is cheaper by the
// same time, so what is saved falls by equal steps with the layer that drops them.
TEST(expected_time, rows_are_fewer_behind_the_layer_that_drops_them) {
  const run_work run{100, 64, 1000, 256, 64};
  const parameters none({});
  const auto work = [&](const row_traits& rows) {
    return work_of(sdar(), with({row_extent::block, 0.625}), none, run, rows);
  };
  EXPECT_EQ(work({}).late_rows, 0);
  EXPECT_EQ(work({.narrows_at = {0, 7}, .keeps = 0.25}).rows, 20);
  EXPECT_EQ(work({.narrows_at = {0, 7}, .keeps = 0.25}).late_rows, 5);
  const auto seconds = [&](const row_traits& rows) {
    return expected_seconds(sdar(), work(rows), ceilings_of("h100"));
  };
  const auto at = [&](std::int32_t layer) {
    return seconds({.narrows_at = {layer}, .keeps = 0.25});
  };
  const double step = (at(21) - at(1)) / 20;
  EXPECT_GT(step, 0);
  EXPECT_NEAR(at(11) - at(1), 10 * step, 1e-9 * at(1));
  // Behind the last layer nothing is saved but in the part of it that follows the projection.
  const double rest = seconds({}) - at(35);
  EXPECT_GT(rest, 0);
  EXPECT_LT(rest, step);
  EXPECT_EQ(seconds({.narrows_at = {1}, .keeps = 1}), seconds({}));
}

TEST(expected_time, a_run_is_its_forwards) {
  run_work run;
  run.answers = 64;
  run.batch = 32;
  run.generated = 256;
  run.forwards = 100;
  const auto seconds = [&] { return expected_seconds(sdar(), run, ceilings_of("h200")); };
  const double decode = seconds();
  run.forwards = 200;
  EXPECT_NEAR(seconds(), 2 * decode, 1e-9);
  run.answers = 65;  // a third batch
  EXPECT_NEAR(seconds(), 3 * decode, 1e-9);
  run.prompt = 4096;
  const double prefilled = seconds();
  EXPECT_GT(prefilled, 3 * decode);
  run.full_forwards = 8;
  EXPECT_GT(seconds(), prefilled);
}

// SDAR-8B, one row on 400 keys, by hand: 6.946 G weights of the body, 0.622 G of the head and 59 MB of
// keys and values at 4.3 TB/s; beside these 36 layers of 4 small kernels at 3 us, 12 more, 36 times what
// attention looks up, and the host.
TEST(expected_time, one_row_takes_what_reading_the_weights_takes) {
  run_work run;
  run.rows = run.candidates = 1;
  run.generated = 800;  // half of them are keys
  run.forwards = 1;
  const double reads = (2 * (6.946e9 + 0.622e9) + 400 * 147456.0) / 4.3e12;
  const double products = 36 * 5 * 1e-6, small = (36 * 4 + 13) * 3e-6, host = 24e-6 + 36 * 2e-6;
  EXPECT_NEAR(expected_seconds(sdar(), run, ceilings_of("h200")), reads + products + small + host,
              0.05 * reads);
}

}  // namespace
}  // namespace unmask
