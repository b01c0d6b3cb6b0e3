// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The opt-in model smol, where `./dev model smol` has made it: it loads through the ordinary loader
// and finds a needle under every way of decoding that block-causal models have.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "harness/model/chat_template.h"
#include "harness/model/tokenizer.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

TEST(opt_in_model, finds_a_needle_with_every_method_of_block_causal_models) {
  const std::filesystem::path folder =
      std::filesystem::path(UNMASK_SOURCE_DIR) / "experiments/models/smol";
  if (!std::filesystem::exists(folder / "config.json")) {
    GTEST_SKIP() << "NOT RUN: needs " << folder.string() << "; ./dev model smol makes it";
  }
  const model_config config = read_model_config(folder);
  ASSERT_TRUE(config.shifted_logits && config.attention == mask_kind::block_causal);
  const tokenizer tokens = tokenizer::load(folder);
  const transformer model(config, load_weights(config, folder), cpu_backend(), weight_format::f32,
                          256);
  sequence_request request;
  request.prompt = tokens.encode(
      chat_template::load(folder, config)
          .render(conversation{
              {"user",
               "The lamp by the river was small. The owl sang near the market. The code "
               "of the cave is 4817. What is the code of the cave?"}}));
  request.gen_length = 32;
  const parameter_map one_by_one = {{"remasking", "low_confidence_static"}};
  for (const char* method : {"block_diffusion", "delayed_cache", "delayed_cache_plus"}) {
    const auto answer =
        testing::outputs(testing::decode_closed(model, method, one_by_one, {request}, 1))[0];
    EXPECT_NE(tokens.decode(answer, true).find("4817"), std::string::npos)
        << method << ": " << tokens.decode(answer, true);
  }
  for (const char* method : {"focus", "optimus"}) {  // they decide several tokens, so not always it
    const auto answer =
        testing::outputs(testing::decode_closed(model, method, {}, {request}, 1))[0];
    EXPECT_FALSE(answer.empty()) << method;
    EXPECT_EQ(std::count(answer.begin(), answer.end(), config.mask_id), 0) << method;
  }
}

}  // namespace
}  // namespace unmask
