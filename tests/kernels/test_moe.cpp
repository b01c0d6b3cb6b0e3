// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/moe.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;

struct routed {
  std::vector<std::int32_t> expert;
  std::vector<float> weight;
  tensor_view expert_view, weight_view;
  routed(std::int64_t rows, std::int64_t k)
      : expert(static_cast<std::size_t>(rows * k), -77),
        weight(static_cast<std::size_t>(rows * k), test::nan),
        expert_view(make_view(expert.data(), dtype::i32, {rows, k})),
        weight_view(make_view(weight.data(), dtype::f32, {rows, k})) {}
};

// Four experts, two groups. Logits (0, 0, ln 3, -40), so s = (1/2, 1/2, 3/4, ~0); the bias lifts
// expert 3 to 0.6. Group scores 1.0 and 1.35: group 1 is kept; chosen 2 then 3; the weights use s
// without the bias: 3/4 and ~0 -> 2.5 * (1, 0).
TEST(moe, reference_router_by_hand) {
  std::vector<float> w{0, 0, std::log(3.0F), -40}, bias{0, 0, 0, 0.6F};
  moe_router router;
  router.experts = 4;
  router.experts_per_token = 2;
  router.groups = 2;
  router.groups_kept = 1;
  router.scaling = 2.5F;
  router.weight = make_view(w.data(), dtype::f32, {4, 1});
  router.bias = test::view_of(bias);
  grid x({1, 1});
  x.at(0, 0) = 1;
  for (const ops* backend : {&reference_ops(), &cpu_ops()}) {
    routed r(1, 2);
    backend->run(op::moe_route{x, router, r.expert_view, r.weight_view});
    EXPECT_EQ(r.expert, (std::vector<std::int32_t>{2, 3}));
    EXPECT_NEAR(r.weight[0], 2.5, 1e-5);
    EXPECT_NEAR(r.weight[1], 0.0, 1e-5);
    // All scores equal: the lowest group and the lowest experts win.
    std::vector<float> zero(4, 0.0F);
    moe_router tie = router;
    tie.weight = make_view(zero.data(), dtype::f32, {4, 1});
    tie.bias = tensor_view{};
    backend->run(op::moe_route{x, tie, r.expert_view, r.weight_view});
    EXPECT_EQ(r.expert, (std::vector<std::int32_t>{0, 1}));
    EXPECT_FLOAT_EQ(r.weight[0], 1.25F);
  }
}

TEST(moe, route_matches_the_reference_and_the_batch) {
  std::mt19937 rng(11);
  test::for_each_isa([&](const std::string&) {
    for (const bool sigmoid : {true, false}) {
      for (const std::int64_t width : {5, 48, 131}) {
        moe_router router;
        router.experts = 24;
        router.experts_per_token = 5;
        router.groups = sigmoid ? 4 : 1;
        router.groups_kept = sigmoid ? 2 : 1;
        router.sigmoid = sigmoid;
        router.normalize = width != 48;
        router.scaling = 1.7F;
        std::vector<float> w = test::random_vector(rng, 24 * width, 0.3F);
        std::vector<float> bias = test::random_vector(rng, 24, 0.1F);
        router.weight = make_view(w.data(), dtype::f32, {24, width});
        if (sigmoid) router.bias = test::view_of(bias);
        grid x({21, width}, 3);
        x.randomize(rng);
        routed want(21, 5), got(21, 5);
        reference_ops().run(op::moe_route{x, router, want.expert_view, want.weight_view});
        cpu_ops().run(op::moe_route{x, router, got.expert_view, got.weight_view});
        EXPECT_EQ(got.expert, want.expert);
        test::expect_close(got.weight, want.weight, 2e-6, "router weight");
        for (std::int64_t r = 0; r < 21; ++r) {
          routed one(1, 5);
          cpu_ops().run(
              op::moe_route{x.view().slice(r, 1), router, one.expert_view, one.weight_view});
          EXPECT_TRUE(test::same_bits(one.weight.data(), got.weight.data() + 5 * r, 5));
        }
      }
    }
  });
}

TEST(moe, feed_forward_matches_the_reference_and_the_batch) {
  std::mt19937 rng(12);
  test::for_each_isa([&](const std::string&) {
    const std::int64_t width = 37, hidden = 29, rows = 13, k = 3;
    moe_experts reference, fast;
    reference.hidden = fast.hidden = static_cast<std::int32_t>(hidden);
    for (int e = 0; e < 7; ++e) {
      std::vector<float> up = test::random_vector(rng, 2 * hidden * width, 0.2F);
      std::vector<float> down = test::random_vector(rng, hidden * width, 0.2F);
      const tensor_view u = make_view(up.data(), dtype::f32, {2 * hidden, width});
      const tensor_view d = make_view(down.data(), dtype::f32, {width, hidden});
      reference.gate_up.push_back(reference_ops().pack(u, weight_format::f32));
      reference.down.push_back(reference_ops().pack(d, weight_format::f32));
      fast.gate_up.push_back(cpu_ops().pack(u, weight_format::f32));
      fast.down.push_back(cpu_ops().pack(d, weight_format::f32));
    }
    routed route(rows, k);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < k; ++i) {
        // Expert 5 is never used; row 0 names one expert twice.
        route.expert[static_cast<std::size_t>(r * k + i)] =
            static_cast<std::int32_t>(r == 0 && i < 2 ? 6 : (r * 2 + i) % 5);
        route.weight[static_cast<std::size_t>(r * k + i)] = 0.3F + 0.1F * static_cast<float>(i);
      }
    }
    grid x({rows, width}, 2), want({rows, width}), got({rows, width}, 4);
    x.randomize(rng);
    want.randomize(rng);
    got.copy(want);
    grid start({rows, width});
    start.copy(want);
    reference_ops().run(
        op::moe_feed_forward{x, route.expert_view, route.weight_view, reference, want});
    cpu_ops().run(op::moe_feed_forward{x, route.expert_view, route.weight_view, fast, got});
    test::expect_close(got, want, 5e-6, "experts");
    for (std::int64_t r = 0; r < rows; ++r) {
      grid one({1, width});
      std::copy_n(start.row(r), width, one.row(0));
      cpu_ops().run(op::moe_feed_forward{x.view().slice(r, 1), route.expert_view.slice(r, 1),
                                         route.weight_view.slice(r, 1), fast, one});
      EXPECT_TRUE(test::same_bits(one.row(0), got.row(r), width)) << "row " << r;
    }
  });
}

}  // namespace
}  // namespace unmask
