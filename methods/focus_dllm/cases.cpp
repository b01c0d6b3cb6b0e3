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

}  // namespace
}  // namespace unmask
