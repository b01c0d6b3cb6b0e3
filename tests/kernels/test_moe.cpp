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
  for (const backend* backend : {&reference_backend(), &cpu_backend()}) {
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

}  // namespace
}  // namespace unmask
