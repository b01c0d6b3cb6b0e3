// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Embedding, normalisation, rotary positions, SwiGLU and cache writes by hand.
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;

TEST(model_core, reference_rms_norm_by_hand) {
  // x = (3, 4): mean square 12.5; eps 0.5 -> sqrt(13).
  grid x({1, 2}), out({1, 2});
  x.at(0, 0) = 3;
  x.at(0, 1) = 4;
  std::vector<float> weight{2, 10};
  reference_backend().run(op::rms_norm{x, test::view_of(weight), 0.5F, out});
  EXPECT_FLOAT_EQ(out.at(0, 0), static_cast<float>(6 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(out.at(0, 1), static_cast<float>(40 / std::sqrt(13.0)));
}

TEST(model_core, reference_rope_by_hand) {
  // rotary_dim 4, theta 100: frequencies 1 and 1/10. Pairs are (0, 2) and (1, 3); element 4 passes.
  const std::int32_t position = 2;
  grid x({1, 1, 5});
  for (int d = 0; d < 5; ++d) x.at(0, d) = static_cast<float>(d + 1);
  reference_backend().run(op::head_norm_rope{x, tensor_view{}, 0, {4, 100.0F}, &position});
  EXPECT_NEAR(x.at(0, 0), 1 * std::cos(2.0) - 3 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x.at(0, 2), 3 * std::cos(2.0) + 1 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x.at(0, 1), 2 * std::cos(0.2) - 4 * std::sin(0.2), 1e-6);
  EXPECT_NEAR(x.at(0, 3), 4 * std::cos(0.2) + 2 * std::sin(0.2), 1e-6);
  EXPECT_EQ(x.at(0, 4), 5.0F);
}

TEST(model_core, reference_scaled_rope_by_hand) {
  // The same, frequencies divided by 2, every rotated element times 1.5.
  const std::int32_t position = 2;
  grid x({1, 1, 5});
  for (int d = 0; d < 5; ++d) x.at(0, d) = static_cast<float>(d + 1);
  rope_params rope{4, 100.0F};
  rope.scaling = {rope_scaling_kind::linear, 2};
  rope.magnitude = 1.5F;
  reference_backend().run(op::head_norm_rope{x, tensor_view{}, 0, rope, &position});
  EXPECT_NEAR(x.at(0, 0), 1.5 * (1 * std::cos(1.0) - 3 * std::sin(1.0)), 1e-6);
  EXPECT_NEAR(x.at(0, 2), 1.5 * (3 * std::cos(1.0) + 1 * std::sin(1.0)), 1e-6);
  EXPECT_NEAR(x.at(0, 1), 1.5 * (2 * std::cos(0.1) - 4 * std::sin(0.1)), 1e-6);
  EXPECT_NEAR(x.at(0, 3), 1.5 * (4 * std::cos(0.1) + 2 * std::sin(0.1)), 1e-6);
  EXPECT_EQ(x.at(0, 4), 5.0F);
}

TEST(model_core, reference_rope_of_some_pairs_by_hand) {
  // Pairs (1, 5) and (2, 6) of 8 elements turn; they begin anew, as those of a head of 4: 1 and 1/10.
  const std::int32_t position = 2;
  grid x({1, 1, 8});
  for (int d = 0; d < 8; ++d) x.at(0, d) = static_cast<float>(d + 1);
  rope_params rope{8, 100.0F};
  rope.first_pair = 1;
  rope.last_pair = 3;
  rope.restart = 4;
  reference_backend().run(op::head_norm_rope{x, tensor_view{}, 0, rope, &position});
  EXPECT_NEAR(x.at(0, 1), 2 * std::cos(2.0) - 6 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x.at(0, 5), 6 * std::cos(2.0) + 2 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x.at(0, 2), 3 * std::cos(0.2) - 7 * std::sin(0.2), 1e-6);
  EXPECT_NEAR(x.at(0, 6), 7 * std::cos(0.2) + 3 * std::sin(0.2), 1e-6);
  for (const int d : {0, 3, 4, 7}) EXPECT_EQ(x.at(0, d), static_cast<float>(d + 1));
}

TEST(model_core, reference_silu_and_linear_by_hand) {
  grid gate_up({1, 2}), out({1, 1});
  gate_up.at(0, 0) = std::log(3.0F);  // sigmoid(ln 3) = 3/4
  gate_up.at(0, 1) = 8;
  reference_backend().run(op::silu_mul{gate_up, out});
  EXPECT_FLOAT_EQ(out.at(0, 0), 6 * std::log(3.0F));

  std::vector<float> w{1, 2, 3, 4, 5, 6}, bias{10, 20};
  grid x({1, 3}), y({1, 2});
  for (int k = 0; k < 3; ++k) x.at(0, k) = static_cast<float>(k + 1);
  const auto packed =
      reference_backend().pack(make_view(w.data(), dtype::f32, {2, 3}), weight_format::f32);
  reference_backend().run(op::linear{x, *packed, test::view_of(bias), y, false});
  EXPECT_EQ(y.at(0, 0), 24.0F);
  EXPECT_EQ(y.at(0, 1), 52.0F);
  reference_backend().run(op::linear{x, *packed, tensor_view{}, y, true});
  EXPECT_EQ(y.at(0, 0), 38.0F);
  EXPECT_EQ(y.at(0, 1), 84.0F);
  // int8: the weight (1, 2, 3) has scale 3/127 and levels 42, 85, 127 (42.33, 84.67); x = (1, 2, 3)
  // has the same levels: 42^2 + 85^2 + 127^2 = 25118 -> 25118 * 9 / 127^2.
  const auto small =
      reference_backend().pack(make_view(w.data(), dtype::f32, {2, 3}), weight_format::int8);
  reference_backend().run(op::linear{x, *small, tensor_view{}, y, false});
  EXPECT_NEAR(y.at(0, 0), 25118.0 * 9 / (127 * 127), 1e-5);
}

TEST(model_core, embed_reads_every_float_type) {
  std::mt19937 rng(1);
  const std::vector<std::int32_t> token{4, 0, 6, 6, 1};
  std::vector<float> table = test::random_vector(rng, 7 * 19);
  std::vector<std::uint16_t> half;
  for (const float f : table) half.push_back(to_bf16(f));
  for (const backend* backend : test::host_backends()) {
    for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
      void* data = type == dtype::f32 ? static_cast<void*>(table.data()) : half.data();
      const tensor_view view = make_view(data, type, {7, 19});
      grid got({5, 19}, 2);
      backend->run(op::embed{token.data(), view, got});
      backend->synchronize();
      for (std::int64_t r = 0; r < 5; ++r) {
        for (std::int64_t d = 0; d < 19; ++d) {
          EXPECT_EQ(got.at(r, d), float_at(view, token[static_cast<std::size_t>(r)], d));
        }
      }
    }
  }
  // A token that is not in the table: the host says so, a kernel leaves NaN.
  const std::int32_t outside = 7;
  grid out({1, 19});
  const op::embed beyond{&outside, make_view(table.data(), dtype::f32, {7, 19}), out};
  EXPECT_THROW(cpu_backend().run(beyond), std::logic_error);
  test::for_each_device([&](const backend& device) {
    out.at(0, 0) = 0;
    device.run(beyond);
    device.synchronize();
    EXPECT_TRUE(std::isnan(out.at(0, 0)));
  });
}

TEST(model_core, nan_and_infinity_stay_visible) {
  test::for_each_isa([&](const backend& on) {
    grid x({1, 40}), out({1, 20}), normed({1, 40});
    std::mt19937 rng(3);
    x.randomize(rng);
    x.at(0, 17) = test::nan;
    on.run(op::silu_mul{x, out});
    EXPECT_TRUE(std::isnan(out.at(0, 17)) && std::isfinite(out.at(0, 16)));
    std::vector<float> weight(40, 1.0F);
    on.run(op::rms_norm{x, test::view_of(weight), 1e-5F, normed});
    for (int c = 0; c < 40; ++c) EXPECT_TRUE(std::isnan(normed.at(0, c)));
  });
}

// The page of slot 70 of sequence 1 is the fourth of the table.
TEST(model_core, kv_write_finds_pages) {
  std::mt19937 rng(5);
  const std::vector<std::int32_t> begin{0, 0, 1}, sequence{1}, position{3}, slot{70};
  const row_set rows{2, 1, begin.data(), sequence.data(), position.data(), slot.data()};
  test::cache_fixture cache(rng, 2, 2, 2, 12);
  grid k({1, 2, 12}), v({1, 2, 12});
  reference_backend().run(op::kv_write{rows, k.randomize(rng), v.randomize(rng), cache.kv});
  const std::int32_t page = cache.table[3];
  EXPECT_EQ(cache.keys.at(page, 6 * 24 + 13), k.at(0, 13));
  EXPECT_EQ(cache.values.at(page, 6 * 24 + 13), v.at(0, 13));
}

}  // namespace
}  // namespace unmask
