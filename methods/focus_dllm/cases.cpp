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

}  // namespace
}  // namespace unmask
