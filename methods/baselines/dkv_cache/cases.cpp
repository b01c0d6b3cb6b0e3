// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// dKV-Cache refreshed in every step is vanilla.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

const parameter_map blocks = {{"block_length", 8}};

TEST(limits_full, dkv_cache_refreshed_every_step_is_vanilla) {
  expect_same_answers(model_family::llada, "dkv_cache", with(blocks, {{"refresh_interval", 1}}),
                      "vanilla", blocks);
  expect_same_answers(model_family::dream, "dkv_cache", {{"refresh_interval", 1}}, "vanilla", {});
}

}  // namespace
}  // namespace unmask
