// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The CUDA kernels of linear layers, LM head, sampling and experts, emulated, against the
// reference.
#include "kernels/float16.h"
#include "kernels/head.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;

struct answers {
  std::vector<std::int32_t> token;
  std::vector<float> probability, margin, negative_entropy, gap, residual;
  explicit answers(std::size_t n)
      : token(n, -77),
        probability(n, test::nan),
        margin(probability),
        negative_entropy(probability),
        gap(probability),
        residual(probability) {}
  confidence_out out() {
    return {token.data(), probability.data(), margin.data(), negative_entropy.data(),
            gap.data(),   residual.data()};
  }
  void expect_close(const answers& want) const {
    EXPECT_EQ(token, want.token);
    test::expect_close(probability, want.probability, 5e-6, "probability");
    test::expect_close(margin, want.margin, 5e-6, "margin");
    test::expect_close(negative_entropy, want.negative_entropy, 6e-6, "entropy");
    test::expect_close(residual, want.residual, 5e-6, "residual");
    for (std::size_t i = 0; i < gap.size(); ++i) {
      if (std::isfinite(want.gap[i])) {
        EXPECT_TRUE(test::close(gap[i], want.gap[i], 1e-5)) << "gap";
      } else {
        EXPECT_EQ(gap[i], want.gap[i]);
      }
    }
  }
};

TEST(device_gemm, linear_matches_double_and_the_batch) {
  test::for_each_device([&](const ops& device) {
    for (const auto& [rows, depth, features] :
         {std::array<int, 3>{1, 1, 1}, {3, 7, 5}, {9, 129, 47}, {17, 33, 97}, {70, 50, 130}}) {
      std::mt19937 rng(7);
      grid x({rows, depth}, 3), w({features, depth}, 1), y({rows, features}, 2);
      grid want({rows, features});
      x.randomize(rng);
      w.randomize(rng);
      y.randomize(rng);
      want.copy(y);
      std::vector<float> bias = test::random_vector(rng, features);
      for (const bool accumulate : {false, true}) {
        reference_ops().run(op::linear{x, *reference_ops().pack(w, weight_format::f32),
                                       test::view_of(bias), want, accumulate});
        device.run(
            op::linear{x, *device.pack(w, weight_format::f32), test::view_of(bias), y, accumulate});
        device.synchronize();
        test::expect_close(y, want, 2e-5, "linear");
        for (std::int64_t r = 0; r + 1 < rows; ++r) {
          ASSERT_TRUE(std::isnan(y.row(r)[features]));  // the gap behind a row is not written
        }
      }
      const packed_handle packed = device.pack(w, weight_format::f32);
      grid all({rows, features}), one({1, features});
      device.run(op::linear{x, *packed, {}, all, false});
      device.run(op::linear{x.view().slice(rows / 2, 1), *packed, {}, one, false});
      device.synchronize();
      ASSERT_TRUE(test::same_bits(one.row(0), all.row(rows / 2), features));
    }
  });
}

// bfloat16: activations are rounded too, so the tolerance is that of both factors' rounding.
TEST(device_gemm, bf16_products_are_those_of_rounded_operands) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(8);
    grid x({5, 70}), rounded({5, 70}), w({33, 70}), y({5, 33}), want({5, 33});
    x.randomize(rng);
    w.randomize(rng);
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t k = 0; k < 70; ++k) rounded.at(r, k) = from_bf16(to_bf16(x.at(r, k)));
    }
    reference_ops().run(
        op::linear{rounded, *reference_ops().pack(w, weight_format::bf16), {}, want, false});
    const packed_handle packed = device.pack(w, weight_format::bf16);
    EXPECT_EQ(packed->bytes, 33U * 70 * 2);
    device.run(op::linear{x, *packed, {}, y, false});
    device.synchronize();
    test::expect_close(y, want, 2e-5, "bf16");
  });
}

TEST(device_gemm, refuses_what_it_cannot_do) {
  grid x({2, 8}), w({4, 8}), wrong({2, 5});
  const ops& device = cuda_emulated_ops();
  EXPECT_EQ(device.name(), "cuda-emulated");
  const packed_handle packed = device.pack(w, weight_format::f32);
  EXPECT_THROW(device.run(op::linear{x, *packed, {}, wrong, false}), std::logic_error);
  const packed_handle foreign = reference_ops().pack(w, weight_format::f32);
  EXPECT_THROW(device.run(op::linear{x, *foreign, {}, wrong, false}), std::logic_error);
}

TEST(device_head, confidence_matches_the_reference_and_the_batch) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(21);
    for (const std::int64_t vocabulary : {1, 2, 100, 1003, 9001}) {
      const std::int64_t width = vocabulary > 5000 ? 3 : 17;
      grid x({9, width}, 2), w({vocabulary, width});
      x.randomize(rng);
      w.randomize(rng, 0.7F);
      test::candidates_fixture c;
      c.add({3, 9});
      c.add({});
      c.add({1, 4, 8});
      c.row = {8, 0, 3, 3, 5};
      const std::uint64_t seed[3] = {7, 8, 9};
      const std::int32_t step[3] = {1, 2, 3};
      const std::int32_t banned[1] = {static_cast<std::int32_t>(vocabulary / 2)};
      for (const float gumbel : {0.0F, 0.8F}) {
        confidence_params params;
        params.temperature = gumbel > 0 ? 1.0F : 0.7F;
        params.gumbel_temperature = gumbel;
        params.noise = {seed, step};
        if (vocabulary > 2) {
          params.banned = banned;
          params.banned_count = 1;
        }
        answers want(5), got(5), one(1);
        reference_ops().run(op::confidence{x, *reference_ops().pack(w, weight_format::f32), c.set(),
                                           params, want.out()});
        const packed_handle head = device.pack(w, weight_format::f32);
        device.run(op::confidence{x, *head, c.set(), params, got.out()});
        device.synchronize();
        got.expect_close(want);
        // Candidate 3 alone, as a batch of one.
        test::candidates_fixture alone;
        alone.add({4});
        alone.row = {3};
        params.noise = {seed + 2, step + 2};
        device.run(op::confidence{x, *head, alone.set(), params, one.out()});
        device.synchronize();
        EXPECT_EQ(one.token[0], got.token[3]);
        EXPECT_TRUE(test::same_bits(&one.probability[0], &got.probability[3], 1));
        EXPECT_TRUE(test::same_bits(&one.residual[0], &got.residual[3], 1));
        EXPECT_TRUE(test::same_bits(&one.negative_entropy[0], &got.negative_entropy[3], 1));
      }
    }
  });
}

TEST(device_head, ties_go_to_the_lowest_and_near_certain_tokens_keep_their_order) {
  test::for_each_device([&](const ops& device) {
    grid x({4, 4}), w({4, 4});
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t v = 0; v < 4; ++v) {
        x.at(r, v) = 0;
        w.at(r, v) = r == v ? 1 : 0;
      }
    }
    const float high[3] = {20, 26, 23};
    for (std::int64_t r = 0; r < 3; ++r) x.at(r, 1) = high[r];
    test::candidates_fixture c;
    c.add({3, 5, 9, 11});
    answers got(4);
    device.run(op::confidence{x, *device.pack(w, weight_format::f32), c.set(), {}, got.out()});
    device.synchronize();
    EXPECT_EQ(got.token, (std::vector<std::int32_t>{1, 1, 1, 0}));
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(got.probability[i], 1.0F);
      const double rest = 3 * std::exp(-double{high[i]});
      EXPECT_NEAR(got.residual[i], rest, 1e-6 * rest);
    }
    EXPECT_EQ(got.probability[3], 0.25F);
    EXPECT_EQ(got.margin[3], 0.0F);
    EXPECT_THROW(device.run(op::confidence{
                     x, *device.pack(w, weight_format::f32), c.set(), {0.0F}, got.out()}),
                 std::logic_error);
  });
}

TEST(device_head, nan_never_wins_and_always_shows) {
  test::for_each_device([&](const ops& device) {
    grid x({1, 4}), w({4, 4});
    for (std::int64_t r = 0; r < 4; ++r) {
      for (std::int64_t v = 0; v < 4; ++v) w.at(r, v) = r == v ? 1 : 0;
      x.at(0, r) = static_cast<float>(r);
    }
    // NaN in the weights of token 3 alone.
    w.at(3, 3) = test::nan;
    test::candidates_fixture c;
    c.add({3});
    answers got(1);
    device.run(op::confidence{x, *device.pack(w, weight_format::f32), c.set(), {}, got.out()});
    device.synchronize();
    EXPECT_EQ(got.token[0], 2);
    EXPECT_TRUE(std::isnan(got.probability[0]));
  });
}

TEST(device_head, logits_of_chosen_rows) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(5);
    grid x({6, 20}), w({70, 20}), want({3, 70}, 1), got({3, 70}, 4);
    x.randomize(rng);
    w.randomize(rng);
    const std::int32_t row[3] = {5, 0, 5};
    reference_ops().run(op::logits{x, *reference_ops().pack(w, weight_format::f32), row, want});
    device.run(op::logits{x, *device.pack(w, weight_format::f32), row, got});
    device.synchronize();
    test::expect_close(got, want, 1e-5, "logits");
  });
}

TEST(device_head, sample_matches_the_reference) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(33);
    for (const std::int64_t vocabulary : {1, 2, 9, 300, 1500}) {
      for (const auto& [temperature, top_p, top_k] : {std::tuple<float, float, int>{0.0F, 1.0F, 0},
                                                      {0.8F, 1.0F, 0},
                                                      {1.0F, 0.9F, 0},
                                                      {0.6F, 1.0F, 7},
                                                      {1.3F, 0.5F, 3},
                                                      {0.0F, 0.7F, 0},
                                                      {1.0F, 0.95F, 100}}) {
        grid want_logits({6, vocabulary}, 1), got_logits({6, vocabulary}, 3);
        want_logits.randomize(rng, 2.0F);
        for (std::int64_t v = 0; v < vocabulary; v += 3) want_logits.at(2, v) = 1.5F;  // ties
        for (std::int64_t v = 0; v < vocabulary; ++v) want_logits.at(3, v) = 0.0F;
        got_logits.copy(want_logits);
        test::candidates_fixture c;
        c.add({3, 9, 10});
        c.add({1, 2, 7});
        const std::uint64_t seed[2] = {70, 80};
        const std::int32_t step[2] = {4, 5};
        sample_params params{temperature, top_p, top_k, {seed, step}};
        answers want(6), got(6);
        reference_ops().run(op::sample{c.set(), want_logits, params, want.out()});
        device.run(op::sample{c.set(), got_logits, params, got.out()});
        device.synchronize();
        SCOPED_TRACE("vocabulary " + std::to_string(vocabulary) + ", temperature " +
                     std::to_string(temperature) + ", top_p " + std::to_string(top_p) + ", top_k " +
                     std::to_string(top_k));
        got.expect_close(want);
        test::expect_close(got_logits, want_logits, 1e-6, "probabilities");
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

struct routes {
  std::vector<std::int32_t> expert;
  std::vector<float> weight;
  tensor_view expert_view, weight_view;
  routes(std::int64_t rows, std::int64_t k)
      : expert(static_cast<std::size_t>(rows * k), -77),
        weight(static_cast<std::size_t>(rows * k), test::nan),
        expert_view(make_view(expert.data(), dtype::i32, {rows, k})),
        weight_view(make_view(weight.data(), dtype::f32, {rows, k})) {}
};

TEST(device_moe, route_matches_the_reference) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(11);
    for (const bool sigmoid : {true, false}) {
      for (const std::int64_t width : {5, 48, 131}) {
        moe_router router;
        router.experts = 40;
        router.experts_per_token = 5;
        router.groups = sigmoid ? 4 : 1;
        router.groups_kept = sigmoid ? 2 : 1;
        router.sigmoid = sigmoid;
        router.normalize = width != 48;
        router.scaling = 1.7F;
        std::vector<float> w = test::random_vector(rng, 40 * width, 0.3F);
        std::vector<float> bias = test::random_vector(rng, 40, 0.1F);
        router.weight = make_view(w.data(), dtype::f32, {40, width});
        if (sigmoid) router.bias = test::view_of(bias);
        grid x({9, width}, 3);
        x.randomize(rng);
        for (std::int64_t d = 0; d < width; ++d) x.at(4, d) = 0;  // all scores equal
        routes want(9, 5), got(9, 5);
        reference_ops().run(op::moe_route{x, router, want.expert_view, want.weight_view});
        device.run(op::moe_route{x, router, got.expert_view, got.weight_view});
        device.synchronize();
        EXPECT_EQ(got.expert, want.expert);
        test::expect_close(got.weight, want.weight, 2e-6, "router weight");
      }
    }
  });
}

TEST(device_moe, feed_forward_matches_the_reference_and_the_batch) {
  test::for_each_device([&](const ops& device) {
    std::mt19937 rng(12);
    const std::int64_t width = 37, hidden = 29, rows = 40, k = 3;
    moe_experts reference, own;
    reference.hidden = own.hidden = static_cast<std::int32_t>(hidden);
    for (int e = 0; e < 7; ++e) {
      std::vector<float> up = test::random_vector(rng, 2 * hidden * width, 0.2F);
      std::vector<float> down = test::random_vector(rng, hidden * width, 0.2F);
      const tensor_view u = make_view(up.data(), dtype::f32, {2 * hidden, width});
      const tensor_view d = make_view(down.data(), dtype::f32, {width, hidden});
      reference.gate_up.push_back(reference_ops().pack(u, weight_format::f32));
      reference.down.push_back(reference_ops().pack(d, weight_format::f32));
      own.gate_up.push_back(device.pack(u, weight_format::f32));
      own.down.push_back(device.pack(d, weight_format::f32));
    }
    routes route(rows, k);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < k; ++i) {
        // Expert 5 is never used, expert 0 gets more than a tile; row 0 names one expert twice.
        const std::int64_t e =
            r == 0 && i < 2 ? 6 : (i == 0 || r % 4 != 0 ? i % 2 * 3 : (r + i) % 5);
        route.expert[static_cast<std::size_t>(r * k + i)] = static_cast<std::int32_t>(e);
        route.weight[static_cast<std::size_t>(r * k + i)] = 0.3F + 0.1F * static_cast<float>(i);
      }
    }
    grid x({rows, width}, 2), want({rows, width}), got({rows, width}, 4), one({1, width});
    x.randomize(rng);
    want.randomize(rng);
    got.copy(want);
    std::copy_n(want.row(7), width, one.row(0));
    reference_ops().run(
        op::moe_feed_forward{x, route.expert_view, route.weight_view, reference, want});
    device.run(op::moe_feed_forward{x, route.expert_view, route.weight_view, own, got});
    device.run(op::moe_feed_forward{x.view().slice(7, 1), route.expert_view.slice(7, 1),
                                    route.weight_view.slice(7, 1), own, one});
    device.synchronize();
    test::expect_close(got, want, 5e-6, "experts");
    EXPECT_TRUE(test::same_bits(one.row(0), got.row(7), width));
  });
}

}  // namespace
}  // namespace unmask
