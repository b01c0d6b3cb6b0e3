// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A cache changes no token.
#include <gtest/gtest.h>

#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

// A causal model decoded with a cache equals the same model run over the whole prefix each time.
TEST(limits, autoregressive_cache_equals_recomputation) {
  const auto model = tiny_model(model_family::qwen3, reference_backend());
  const auto requests = tiny_requests(2, 9);
  const parameter_map none = {{"stop", false}};
  const auto whole = decode_closed(*model, "autoregressive", none, requests, 1);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    sequence_request growing = requests[i];
    growing.gen_length = 1;
    for (const std::int32_t expected : whole.answers[i].output) {
      const auto one = decode_closed(*model, "autoregressive", none, {growing}, 1);
      ASSERT_EQ(one.answers[0].output, std::vector<std::int32_t>{expected});
      growing.prompt.push_back(expected);
    }
  }
}

}  // namespace
}  // namespace unmask
