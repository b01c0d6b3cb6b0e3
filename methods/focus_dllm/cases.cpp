// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Focus-dLLM that sees every block of the prompt is its dense recipe, which is Fast-dLLM's dual cache.
#include <gtest/gtest.h>

#include "tests/methods/limits.h"

namespace unmask {
namespace {

using namespace testing;

const parameter_map blocks = {{"block_length", 8}};

TEST(limits_full, focus_dllm_seeing_every_prompt_block_is_its_dense_recipe) {
  for (const model_family family : {model_family::llada, model_family::dream}) {
    const parameter_map base =
        with(blocks, {{"dense_layers", 1}, {"dense_tail_layers", 0}, {"prompt_block_size", 4}});
    for (const char* selection : {"score", "random", "last"}) {
      expect_same_answers(family, "focus_dllm",
                          with(base, {{"alpha", 1.0}, {"selection", std::string(selection)}}),
                          "focus_dllm", with(base, {{"sparse_attention", false}}));
    }
  }
}

TEST(limits_full, focus_dllm_without_indicator_and_sparsity_is_fast_dllm_dual) {
  expect_same_answers(model_family::llada, "focus_dllm",
                      with(blocks, {{"past_confidence", false}, {"sparse_attention", false}}),
                      "fast_dllm", blocks);
}

// floor(rho n) positions are computed and n of them are to be unmasked.
TEST(limits_full, focus_dllm_refuses_to_compute_less_than_it_unmasks) {
  const model_config model = tiny_config(model_family::llada);
  const parameter_map base = with(blocks, {{"dense_layers", 1}});
  const std::string said = refusal_of("focus_dllm", model, with(base, {{"rho", 0.99}}));
  EXPECT_NE(said.find("rho must be at least 1"), std::string::npos) << said;
  EXPECT_EQ(refusal_of("focus_dllm", model, with(base, {{"rho", 1.0}})), "");
  // Without the indicator rho chooses nothing.
  EXPECT_EQ(refusal_of("focus_dllm", model, with(base, {{"rho", 0.5}, {"past_confidence", false}})),
            "");
}

// Prompt 10, which is 3 blocks of 4, canvas 16 in two blocks of 8, one token a step: 7 forwards of each
// block score the 3 means in the 2 layers behind the dense one, a product of 4 heads of 10 for each.
TEST(limits_full, focus_dllm_counts_its_scores_by_hand) {
  const auto model = tiny_model(model_family::llada, cpu_backend());
  const sequence_request request{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 16, 0};
  const parameter_map given =
      with(blocks, {{"dense_layers", 1}, {"dense_tail_layers", 0}, {"prompt_block_size", 4}});
  const auto counted = [&](const parameter_map& settings) {
    return decode_closed(*model, "focus_dllm", settings, {request}, 1).answers[0].counters;
  };
  const sequence_counters scored = counted(given);
  EXPECT_EQ(scored.forwards, 16);
  EXPECT_EQ(scored.selection_flops, (7 + 7) * 2 * 3 * 2.0 * 40);
  EXPECT_EQ(counted(with(given, {{"selection", std::string("last")}})).selection_flops, 0);
}

}  // namespace
}  // namespace unmask
