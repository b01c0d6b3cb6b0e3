// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// LLaDA2's cached blocks are what the whole window computes; llada21's are too.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask::testing {
namespace {

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

}  // namespace
}  // namespace unmask::testing
