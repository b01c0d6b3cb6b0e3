// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The mask token where nobody asked for it: spelt in a prompt, and predicted by the model.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/base/error.h"
#include "methods/settings.h"
#include "tests/methods/tiny_models.h"

namespace unmask {
namespace {

using namespace testing;

class mask_token : public ::testing::TestWithParam<setting> {};

// Nothing before the canvas may be decided, whatever its tokens are.
struct prompt_watch final : step_observer {
  void on_step(const step_view& s) override {
    for (std::int32_t q = 0; q < s.state.capacity(); ++q) {
      if (!s.state.occupied(q)) continue;
      const std::int32_t* begin = s.candidates.begin.as<std::int32_t>();
      for (std::int32_t c = begin[q]; c < begin[q + 1]; ++c) {
        EXPECT_GE(s.candidates.position.as<std::int32_t>()[c], s.state.at(q).prompt_length);
      }
    }
  }
};

// Token 40 is made the mask's twin: the same embedding under another id. Were the id looked at
// anywhere in a prompt, the two would decode differently.
TEST_P(mask_token, in_a_prompt_is_text) {
  const setting& p = GetParam();
  model_config c = testing::tiny_config(p.family);
  if (c.mask_id < 0) GTEST_SKIP() << "a model without masks";
  const std::int32_t twin = 40;
  model_weights w = random_weights(c, 7, dtype::f32);
  for (std::int64_t i = 0; i < w.embedding.elements(); ++i) {
    static_cast<float*>(w.embedding.data)[i] *= 40;
  }
  for (std::int64_t i = 0; i < w.lm_head.elements(); ++i) {
    static_cast<float*>(w.lm_head.data)[i] *= 25;
  }
  std::copy_n(w.embedding.row<float>(c.mask_id), c.hidden, w.embedding.row<float>(twin));
  const transformer model(c, w, cpu_backend(), weight_format::f32, 512);
  auto spelt = testing::tiny_requests(3, 16);
  for (sequence_request& r : spelt) {
    std::ranges::replace(r.prompt, twin, 41);
    for (std::size_t i = 0; i < r.prompt.size(); i += 3) r.prompt[i] = c.mask_id;
    r.prompt.back() = c.mask_id;
  }
  auto twins = spelt;
  for (sequence_request& r : twins) std::ranges::replace(r.prompt, c.mask_id, twin);
  prompt_watch watch;
  EXPECT_EQ(outputs(decode_closed(model, p.method, p.given, spelt, 2, p.preset, &watch)),
            outputs(decode_closed(model, p.method, p.given, twins, 2, p.preset)));
}

// A model that predicts nothing but the mask token, which is 0, ends every method: with an answer,
// or with a sentence that names the cause. The arg-max takes it because all tokens tie; a sampler
// draws it because a dimension that is large in every row of the model speaks for it alone.
TEST_P(mask_token, predicted_for_ever_ends) {
  const setting& p = GetParam();
  model_config c = testing::tiny_config(p.family);
  if (c.mask_id < 0) GTEST_SKIP() << "a model without masks";
  c.mask_id = 0;
  const model_weights w = random_weights(c, 7, dtype::f32);
  std::fill_n(static_cast<float*>(w.lm_head.data), w.lm_head.elements(), 0.0F);
  const bool draws = p.given.contains("temperature") || std::string(p.preset) == "hf";
  for (std::int64_t t = 0; draws && t < c.vocabulary; ++t) {
    w.embedding.row<float>(t)[0] = 1000;
    w.lm_head.row<float>(t)[0] = t == c.mask_id ? 10.0F : -10.0F;
  }
  const transformer model(c, w, cpu_backend(), weight_format::f32, 512);
  try {
    const auto done =
        decode_closed(model, p.method, p.given, testing::tiny_requests(2, 16), 2, p.preset);
    EXPECT_LE(done.steps, 16 * 16 + 64) << "bounded by a canvas of idle steps per token";
    std::int64_t masks = 0, decided = 0;
    for (const decoded_answer& a : done.answers) {
      masks += a.counters.mask_decided;
      decided += a.counters.committed;
    }
    // Diffulex never predicts the mask token: an answer holds none.
    const bool bans = std::string(p.method) == "multi_block" && p.family == model_family::sdar;
    if (bans) {
      EXPECT_EQ(masks, 0);
    } else {
      EXPECT_GE(masks, decided);
    }
  } catch (const error& stuck) {
    EXPECT_EQ(stuck.code(), exit_code::run_failed);
    EXPECT_NE(std::string(stuck.what()).find("predicts the mask token"), std::string::npos)
        << stuck.what();
  }
}

INSTANTIATE_TEST_SUITE_P(all, mask_token, ::testing::ValuesIn(all_settings()),
                         [](const auto& one) { return std::string(one.param.label); });

}  // namespace
}  // namespace unmask
