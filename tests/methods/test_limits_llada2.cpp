// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Limit identities of LLaDA2.x decoding.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

parameter_map with(parameter_map m, const parameter_map& more) {
  for (const auto& [name, value] : more) m[name] = value;
  return m;
}

const parameter_map loop = {{"block_length", 8}, {"threshold", 0.3}, {"stop", "none"}};
const parameter_map edits = {{"editing_threshold", 0.15}, {"max_post_steps", 3}};

// The mask is block-causal: K/V of finished blocks are what the whole window would compute.
TEST(limits_llada2, cached_blocks_change_no_token) {
  for (const model_family family : {model_family::sdar, model_family::llada2_moe}) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 20);
    for (const char* method : {"llada2", "llada21"}) {
      const parameter_map given =
          std::string(method) == "llada2" ? with(loop, {{"steps", 8}}) : with(loop, edits);
      const auto cached = decode_closed(*model, method, given, requests, 2);
      const auto window =
          decode_closed(*model, method, with(given, {{"cache", std::string("none")}}), requests, 2);
      EXPECT_EQ(outputs(cached), outputs(window)) << method;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        const sequence_counters &c = cached.answers[i].counters, &w = window.answers[i].counters;
        // The same decisions; what the cache adds are its prefill and its commits.
        EXPECT_EQ(c.forwards - c.prefill_forwards - c.commit_forwards, w.forwards) << method;
        EXPECT_EQ(c.replaced, w.replaced) << method;
        EXPECT_EQ(c.flips, w.flips) << method;
        EXPECT_EQ(w.prefill_forwards + w.commit_forwards, 0) << method;
        EXPECT_LT(c.rows, w.rows) << method;
      }
    }
  }
}

TEST(limits_llada2, without_edits_llada21_is_llada2_with_a_step_a_position) {
  const auto model = tiny_model(model_family::llada2_moe, reference_backend());
  const auto requests = tiny_requests(4, 20);
  const auto plain = decode_closed(*model, "llada2", with(loop, {{"steps", 8}}), requests, 2);
  const auto never = [&](int post) {
    const parameter_map off = {{"editing_threshold", 1.0}, {"max_post_steps", post}};
    return decode_closed(*model, "llada21", with(loop, off), requests, 2);
  };
  const auto edited = never(0), looked = never(1);
  EXPECT_EQ(outputs(edited), outputs(plain));
  EXPECT_EQ(outputs(looked), outputs(plain));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& p = plain.answers[i].counters;
    EXPECT_EQ(edited.answers[i].counters.forwards, p.forwards);
    EXPECT_EQ(edited.answers[i].counters.replaced, 0);
    // One forward more for every block, which finds it quiet and so saves its commit.
    EXPECT_EQ(looked.answers[i].counters.denoise_steps, p.denoise_steps + (p.commit_forwards + 1));
    EXPECT_EQ(looked.answers[i].counters.commit_forwards, 0);
  }
}

TEST(limits_llada2, edits_are_counted_apart_from_decisions) {
  const auto model = tiny_model(model_family::llada2_moe, reference_backend());
  const auto requests = tiny_requests(4, 16);
  const auto r = decode_closed(*model, "llada21", with(loop, edits), requests, 2);
  std::int64_t replaced = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const sequence_counters& c = r.answers[i].counters;
    // Whole blocks behind the prompt: each of their masks was taken once.
    const auto prompt = static_cast<std::int64_t>(requests[i].prompt.size());
    EXPECT_EQ(c.committed, (prompt + 16 + 7) / 8 * 8 - prompt);
    EXPECT_EQ(c.reopened, 0);
    EXPECT_LE(c.flips, c.replaced);
    replaced += c.replaced;
  }
  EXPECT_GT(replaced, 0);
}

}  // namespace
}  // namespace unmask::testing
