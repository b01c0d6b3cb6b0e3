// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operations of a picture's tower, and tokens that a head refuses, by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/head.h"
#include "kernels/refused.h"
#include "kernels/shared_vector.h"
#include "kernels/vision.h"
#include "tests/kernels/support.h"
#include "tests/support.h"

namespace unmask {
namespace {

std::vector<const backend*> backends() {
  return {&reference_backend(), &cpu_backend(), &cuda_emulated_backend()};
}

TEST(vision, norm_and_gelu_are_their_formulas) {
  for (const backend* b : backends()) {
    // Mean 2, variance 2: (x - 2) / sqrt(2 + 2) * 2 + 1.
    shared_vector<float> x = {0, 2, 2, 4}, w = {2, 2, 2, 2}, shift = {1, 1, 1, 1}, y(4);
    const auto row = [](shared_vector<float>& v) {
      return make_view(v.data(), dtype::f32, {1, 4});
    };
    const auto vector = [](shared_vector<float>& v) {
      return make_view(v.data(), dtype::f32, {4});
    };
    b->run(op::layer_norm{row(x), vector(w), vector(shift), 2.0F, row(y)});
    b->synchronize();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], x[i] - 1, 1e-6) << b->name();
    // Values of scipy.stats.norm.cdf, and of the tanh approximation in float64.
    x = {1, -1, 3, -10};
    b->run(op::gelu{row(x), gelu_form::erf, row(y)});
    b->synchronize();
    const float erf[] = {0.8413447F, -0.1586553F, 2.9959503F, 0};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], erf[i], 1e-6) << b->name();
    b->run(op::gelu{row(x), gelu_form::tanh, row(y)});
    b->synchronize();
    const float tanh[] = {0.8411920F, -0.1588080F, 2.9963627F, 0};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(y[i], tanh[i], 1e-6) << b->name();
  }
}

// Confidence of a head of five tokens whose best is token 3, then 1.
TEST(vision, a_head_that_refuses_tokens_never_says_them) {
  for (const backend* b : backends()) {
    shared_vector<float> w = {0, 3, 1, 4, 2}, x = {1};
    const packed_handle head = b->pack(make_view(w.data(), dtype::f32, {5, 1}), weight_format::f32);
    shared_vector<std::int32_t> begin = {0, 1}, zero = {0}, token(1), banned = {1};
    shared_vector<float> p(1);
    const auto best = [&](const confidence_params& params) {
      confidence_out out;
      out.token = token.data();
      out.probability = p.data();
      b->run(op::confidence{make_view(x.data(), dtype::f32, {1, 1}),
                            *head,
                            {1, 1, begin.data(), zero.data(), zero.data()},
                            params,
                            out});
      b->synchronize();
      return token[0];
    };
    confidence_params bans;
    bans.banned = banned.data();
    bans.banned_count = 1;
    EXPECT_EQ(best({}), 3);
    {
      const refusal no_three(*head, {3});
      EXPECT_EQ(best({}), 1) << b->name();
      // exp(3) / (1 + e^3 + e^1 + e^2)
      EXPECT_NEAR(p[0], std::exp(3.0) / (1 + std::exp(3.0) + std::exp(1.0) + std::exp(2.0)), 1e-6);
      EXPECT_EQ(best(bans), 4) << b->name();
      EXPECT_THROW(refusal(*head, {0}), std::logic_error);
      shared_vector<float> all(5);
      const op::logits whole{make_view(x.data(), dtype::f32, {1, 1}), *head, zero.data(),
                             make_view(all.data(), dtype::f32, {1, 5})};
      EXPECT_NE(test::message_of([&] { b->run(whole); }).find("never says some of its tokens"),
                std::string::npos);
      const all_logits shown;
      b->run(whole);
      b->synchronize();
      EXPECT_EQ(all, w);
    }
    EXPECT_EQ(best({}), 3);
    EXPECT_THROW(refusal(*head, {5}), std::logic_error);
  }
}

}  // namespace
}  // namespace unmask
