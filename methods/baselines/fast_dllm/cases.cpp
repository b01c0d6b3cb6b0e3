// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Fast-dLLM without a cache is vanilla.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

const parameter_map blocks = {{"block_length", 8}};

TEST(limits_full, fast_dllm_threshold_above_one_is_one_token_per_step) {
  for (const char* cache : {"none", "prefix", "dual"}) {
    const auto model = tiny_model(model_family::llada, reference_backend());
    const auto requests = tiny_requests(3, 24);
    const parameter_map given = with(blocks, {{"cache", std::string(cache)}});
    const auto open =
        decode_closed(*model, "fast_dllm", with(given, {{"threshold", 1.5}}), requests, 1);
    EXPECT_EQ(outputs(open), outputs(decode_closed(*model, "fast_dllm", given, requests, 1)));
    for (const decoded_answer& a : open.answers) EXPECT_EQ(a.counters.forwards, 24) << cache;
  }
}

TEST(limits_full, fast_dllm_without_cache_is_vanilla) {
  expect_same_answers(model_family::llada, "fast_dllm", with(blocks, {{"cache", "none"}}),
                      "vanilla", with(blocks, {{"until_clean", true}}));
  expect_same_answers(model_family::dream, "fast_dllm", {{"cache", "none"}}, "vanilla", {});
}

}  // namespace
}  // namespace unmask
