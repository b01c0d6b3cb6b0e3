// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Fast-dLLM without a cache is vanilla, and so is one that computes everything in every step.
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

TEST(limits_full, fast_dllm_that_refreshes_every_step_is_vanilla) {
  const parameter_map prefix = with(blocks, {{"cache", std::string("prefix")}});
  expect_same_answers(model_family::llada, "fast_dllm", with(prefix, {{"refresh_interval", 1}}),
                      "vanilla", with(blocks, {{"until_clean", true}}));
  // Five steps of a block of 8: 0 and 3 compute the canvas, the others the suffix.
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const sequence_request request{{1, 2, 3, 4}, 8, 0};
  const auto r = decode_closed(*model, "fast_dllm",
                               with(prefix, {{"refresh_interval", 3}, {"steps", 5}}), {request}, 1);
  EXPECT_EQ(r.answers[0].counters.forwards, 5);
  EXPECT_EQ(r.answers[0].counters.rows, 2 * 12 + 3 * 8);
}

}  // namespace
}  // namespace unmask
