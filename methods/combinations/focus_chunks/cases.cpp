// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// FOCUS in Optimus' chunks with a budget beyond every chunk is Optimus.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

const model_family families[] = {model_family::sdar, model_family::llada2_moe};

// A budget beyond every chunk: nothing is evicted, and what is left is Optimus.
TEST(limits_focus_chunks, a_large_budget_is_optimus) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(4, 40);
    for (const char* preset : {"chunk8", "bd32"}) {
      const bool chunks = std::string(preset) == "chunk8";
      parameter_map given = {{"threshold", 0.5}};
      const auto plain =
          decode_closed(*model, "optimus", given, requests, 2, chunks ? preset : "prefix_caching");
      given["alpha"] = 1024.0;
      const auto evicting = decode_closed(*model, "focus_chunks", given, requests, 2, preset);
      EXPECT_EQ(outputs(evicting), outputs(plain)) << preset;
      EXPECT_EQ(evicting.steps, plain.steps);
      for (std::size_t i = 0; i < requests.size(); ++i) {
        EXPECT_EQ(evicting.answers[i].counters.layer_rows, plain.answers[i].counters.layer_rows);
        EXPECT_EQ(evicting.answers[i].counters.keys_seen, plain.answers[i].counters.keys_seen);
      }
    }
  }
}

// One masked row survives each forward, so that each denoising step decides exactly one token; rows
// and keys are spared in the layers above.
TEST(limits_focus_chunks, one_kept_row_decides_one_token) {
  for (const model_family family : families) {
    const auto model = tiny_model(family, reference_backend());
    const auto requests = tiny_requests(3, 40);
    const parameter_map base = {
        {"threshold", 0.0}, {"prefill_emits", false}, {"chunk", 8}, {"stop", "none"}};
    parameter_map one = base;
    one["selection"] = "top";
    one["k"] = 1;
    one["ar_context"] = false;
    const auto evicting = decode_closed(*model, "focus_chunks", one, requests, 2);
    const auto plain = decode_closed(*model, "optimus", base, requests, 2);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const sequence_counters& c = evicting.answers[i].counters;
      EXPECT_EQ(c.committed, c.denoise_steps);
      const double forwards = static_cast<double>(c.forwards),
                   other = static_cast<double>(plain.answers[i].counters.forwards);
      EXPECT_LT(static_cast<double>(c.layer_rows) / forwards,
                static_cast<double>(plain.answers[i].counters.layer_rows) / other);
      EXPECT_LT(static_cast<double>(c.keys_seen) / forwards,
                static_cast<double>(plain.answers[i].counters.keys_seen) / other);
    }
  }
}

TEST(limits_focus_chunks, refuses_by_name) {
  const auto config = testing::tiny_config(model_family::sdar);
  for (const auto& [given, word] : std::vector<std::pair<parameter_map, const char*>>{
           {{{"suffix_visible", "stale"}}, "suffix_visible"},
           {{{"selection", "top"}}, "needs k"},
           {{{"chunk", 1}}, "chunk"}}) {
    const std::string said = refusal_of("focus_chunks", config, given);
    EXPECT_NE(said.find("focus_chunks"), std::string::npos) << word;
    EXPECT_NE(said.find(word), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace unmask
