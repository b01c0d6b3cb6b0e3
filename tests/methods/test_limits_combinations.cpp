// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What every combination of methods is held to. The identities of one lie in its folder (cases.cpp).
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"
#include "tests/registered.h"

namespace unmask {
namespace {

using namespace testing;

// Everything that a combination excludes: one sentence that begins with its name, before anything
// runs.
TEST(limits_combinations, each_refusal_is_one_sentence_that_names_the_combination) {
  const struct {
    const char* method;
    parameter_map given;
    const char* word;
  } refused[] = {// The rule's parameters that exclude each other; a quota that nothing heeds.
                 {"ada_blocks", {{"steps", 4}}, "limit_to_quota"},
                 {"ada_blocks", {{"w_clamp", true}, {"metric", "cosine"}}, "w_clamp"},
                 {"ada_blocks", {{"w_clamp", true}, {"rule", "threshold"}}, "w_clamp"},
                 {"ada_blocks", {{"boundary", "last"}, {"short_set", "freeze_all"}}, "freeze_all"},
                 {"ada_blocks", {{"boundary", "last"}, {"centroid", "tier_mean"}}, "tier_mean"},
                 // Pooling needs a middle; the official loop commits every block.
                 {"sparse_blocks", {{"kernel_size", 4}}, "kernel_size"},
                 {"sparse_blocks", {{"loop", "hf"}, {"commit_last", false}}, "commit_last"},
                 // What Optimus refuses, and what eviction does.
                 {"focus_chunks", {{"suffix_visible", "stale"}}, "suffix_visible"},
                 {"focus_chunks", {{"selection", "top"}}, "needs k"},
                 {"focus_chunks", {{"k", 3}}, "selection"},
                 {"focus_chunks", {{"chunk", 1}}, "chunk"},
                 {"focus_chunks", {{"chunk", 9}}, "block length 8"},
                 {"focus_chunks", {{"policy", "prefix_caching"}, {"chunk", 4}}, "prefix_caching"},
                 {"focus_chunks", {{"policy", "naive"}}, "fixed chunk"},
                 {"focus_chunks", {{"policy", "naive"}, {"chunk", 3}}, "divides"},
                 {"focus_chunks",
                  {{"policy", "naive"}, {"chunk", 4}, {"cache_rule", "right_neighbour"}},
                  "right_neighbour"},
                 {"focus_chunks", {{"cache_rule", "none"}, {"chunk", 4}}, "cache_rule none"},
                 {"focus_chunks", {{"out_block", true}, {"chunk", 4}}, "out_block"},
                 {"focus_chunks",
                  {{"boundary_fusion", "fill"}, {"final_refresh", true}, {"chunk", 4}},
                  "boundary_fusion"},
                 {"focus_chunks", {{"obs_mask", "full"}}, "obs_mask"},
                 {"focus_chunks", {{"latency", "table"}}, "latency_samples"}};
  const auto expect_refusal = [](const std::string& method, const model_config& config,
                                 const parameter_map& given, const std::string& word) {
    const std::string said = refusal_of(method, config, given);
    EXPECT_EQ(said.find(method), 0U) << method << " takes what it should refuse: " << word << said;
    EXPECT_NE(said.find(word), std::string::npos) << said;
    EXPECT_EQ(said.find(". "), std::string::npos) << said;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  };
  const model_config sdar = testing::tiny_config(model_family::sdar);
  for (const auto& r : refused) expect_refusal(r.method, sdar, r.given, r.word);
  for (const char* method : {"ada_blocks", "focus_chunks", "sparse_blocks"}) {
    for (const model_family family :
         {model_family::llada, model_family::dream, model_family::qwen3}) {
      expect_refusal(method, testing::tiny_config(family), {}, "block-causal");
    }
    model_config nameless = sdar;
    nameless.block = 0;
    expect_refusal(method, nameless, {}, "set block_length");
    // And nothing is refused without a reason.
    EXPECT_NO_THROW(test::recipe_of(method, sdar));
    EXPECT_NO_THROW(test::recipe_of(method, testing::tiny_config(model_family::llada2_moe)));
  }
  model_config shallow = sdar;
  shallow.layers = 1;
  expect_refusal("focus_chunks", shallow, {}, "one layer");
}

// Without the model there are no activations to choose keys or rows by; Ada-DLM's rule is replaced
// by the trajectory and needs none.
TEST(limits_combinations, a_dry_run_is_refused_where_activations_decide) {
  const auto model = tiny_model(model_family::sdar, reference_backend());
  loop_limits limits;
  limits.sequences = 1;
  limits.max_length = 64;
  limits.dry = true;
  const auto make_loop = [&](const char* method) {
    return step_loop(*model, test::recipe_of(method, model->config()), limits);
  };
  for (const auto& [method, what] :
       {std::pair{"sparse_blocks", "keys"}, std::pair{"focus_chunks", "rows"}}) {
    const std::string said = test::expect_error(exit_code::usage, what, [&] { make_loop(method); });
    EXPECT_EQ(said.find(method), 0U) << said;
  }
  EXPECT_NO_THROW(make_loop("ada_blocks"));
}

}  // namespace
}  // namespace unmask
