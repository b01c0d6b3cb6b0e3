// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Embedding, normalisation, rotary positions, SwiGLU, cache writes: closed forms for the
// reference, the reference for the CPU backend, bits for batch invariance.
#include "kernels/float16.h"
#include "kernels/model_core.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::expect_close;
using test::grid;

TEST(model_core, reference_rms_norm_by_hand) {
  // x = (3, 4): mean square 12.5; eps 0.5 -> sqrt(13).
  grid x({1, 2}), out({1, 2});
  x.at(0, 0) = 3;
  x.at(0, 1) = 4;
  std::vector<float> weight{2, 10};
  reference_ops().run(op::rms_norm{x, test::view_of(weight), 0.5F, out});
  EXPECT_FLOAT_EQ(out.at(0, 0), static_cast<float>(6 / std::sqrt(13.0)));
  EXPECT_FLOAT_EQ(out.at(0, 1), static_cast<float>(40 / std::sqrt(13.0)));
}

TEST(model_core, reference_rope_by_hand) {
  // rotary_dim 4, theta 100: frequencies 1 and 1/10. Pairs are (0, 2) and (1, 3); element 4 passes.
  const std::int32_t position = 2;
  grid x({1, 1, 5});
  for (int d = 0; d < 5; ++d) x.at(0, d) = static_cast<float>(d + 1);
  reference_ops().run(op::head_norm_rope{x, tensor_view{}, 0, {4, 100.0F}, &position});
  EXPECT_NEAR(x.at(0, 0), 1 * std::cos(2.0) - 3 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x.at(0, 2), 3 * std::cos(2.0) + 1 * std::sin(2.0), 1e-6);
  EXPECT_NEAR(x.at(0, 1), 2 * std::cos(0.2) - 4 * std::sin(0.2), 1e-6);
  EXPECT_NEAR(x.at(0, 3), 4 * std::cos(0.2) + 2 * std::sin(0.2), 1e-6);
  EXPECT_EQ(x.at(0, 4), 5.0F);
}

TEST(model_core, reference_silu_and_linear_by_hand) {
  grid gate_up({1, 2}), out({1, 1});
  gate_up.at(0, 0) = std::log(3.0F);  // sigmoid(ln 3) = 3/4
  gate_up.at(0, 1) = 8;
  reference_ops().run(op::silu_mul{gate_up, out});
  EXPECT_FLOAT_EQ(out.at(0, 0), 6 * std::log(3.0F));

  std::vector<float> w{1, 2, 3, 4, 5, 6}, bias{10, 20};
  grid x({1, 3}), y({1, 2});
  for (int k = 0; k < 3; ++k) x.at(0, k) = static_cast<float>(k + 1);
  const auto packed =
      reference_ops().pack(make_view(w.data(), dtype::f32, {2, 3}), weight_format::f32);
  reference_ops().run(op::linear{x, *packed, test::view_of(bias), y, false});
  EXPECT_EQ(y.at(0, 0), 24.0F);
  EXPECT_EQ(y.at(0, 1), 52.0F);
  reference_ops().run(op::linear{x, *packed, tensor_view{}, y, true});
  EXPECT_EQ(y.at(0, 0), 38.0F);
  EXPECT_EQ(y.at(0, 1), 84.0F);
  // int8: the weight (1, 2, 3) has scale 3/127 and levels 42, 85, 127 (42.33, 84.67); x = (1, 2, 3)
  // has the same levels: 42^2 + 85^2 + 127^2 = 25118 -> 25118 * 9 / 127^2.
  const auto small =
      reference_ops().pack(make_view(w.data(), dtype::f32, {2, 3}), weight_format::int8);
  reference_ops().run(op::linear{x, *small, tensor_view{}, y, false});
  EXPECT_NEAR(y.at(0, 0), 25118.0 * 9 / (127 * 127), 1e-5);
}

TEST(model_core, embed_reads_every_float_type) {
  std::mt19937 rng(1);
  const std::vector<std::int32_t> token{4, 0, 6, 6, 1};
  std::vector<float> table = test::random_vector(rng, 7 * 19);
  std::vector<std::uint16_t> half;
  for (const float f : table) half.push_back(to_bf16(f));
  for (const dtype type : {dtype::f32, dtype::bf16, dtype::f16}) {
    void* data = type == dtype::f32 ? static_cast<void*>(table.data()) : half.data();
    const tensor_view view = make_view(data, type, {7, 19});
    grid want({5, 19}, 3), got({5, 19}, 2);
    reference_ops().run(op::embed{token.data(), view, want});
    cpu_ops().run(op::embed{token.data(), view, got});
    for (std::int64_t r = 0; r < 5; ++r) {
      EXPECT_TRUE(test::same_bits(got.row(r), want.row(r), 19));
      EXPECT_EQ(want.at(r, 3), float_at(view, token[static_cast<std::size_t>(r)], 3));
    }
  }
  const std::int32_t outside = 7;
  grid out({1, 19});
  EXPECT_THROW(
      cpu_ops().run(op::embed{&outside, make_view(table.data(), dtype::f32, {7, 19}), out}),
      std::logic_error);
}

TEST(model_core, rows_match_the_reference_on_every_isa) {
  std::mt19937 rng(2);
  test::for_each_isa([&](const std::string&) {
    for (const std::int64_t width : {1, 3, 16, 33, 48, 100, 192, 515}) {
      grid x({5, width}, 7);
      x.randomize(rng, 2.0F);
      std::vector<float> weight = test::random_vector(rng, width);
      grid want({5, width}), got({5, width}, 5);
      reference_ops().run(op::rms_norm{x, test::view_of(weight), 1e-5F, want});
      cpu_ops().run(op::rms_norm{x, test::view_of(weight), 1e-5F, got});
      expect_close(got, want, 2e-6, "rms_norm");
      cpu_ops().run(op::rms_norm{x, test::view_of(weight), 1e-5F, x});  // in place
      expect_close(x, want, 2e-6, "rms_norm in place");

      grid gate_up({5, 2 * width}, 1);
      gate_up.randomize(rng, 4.0F);
      gate_up.at(0, 0) = -200;
      gate_up.at(1, 0) = 200;
      grid product({5, width}), expected({5, width});
      reference_ops().run(op::silu_mul{gate_up, expected});
      cpu_ops().run(op::silu_mul{gate_up, product});
      expect_close(product, expected, 1e-6, "silu_mul");
      // Alone or in the batch, the same bits.
      for (std::int64_t r = 0; r < 5; ++r) {
        grid one({1, width});
        cpu_ops().run(op::silu_mul{gate_up.view().slice(r, 1), one});
        EXPECT_TRUE(test::same_bits(one.row(0), product.row(r), width));
      }
    }
  });
}

TEST(model_core, nan_and_infinity_stay_visible) {
  test::for_each_isa([&](const std::string&) {
    grid x({1, 40}), out({1, 20}), normed({1, 40});
    std::mt19937 rng(3);
    x.randomize(rng);
    x.at(0, 17) = test::nan;
    cpu_ops().run(op::silu_mul{x, out});
    EXPECT_TRUE(std::isnan(out.at(0, 17)) && std::isfinite(out.at(0, 16)));
    std::vector<float> weight(40, 1.0F);
    cpu_ops().run(op::rms_norm{x, test::view_of(weight), 1e-5F, normed});
    for (int c = 0; c < 40; ++c) EXPECT_TRUE(std::isnan(normed.at(0, c)));
  });
}

TEST(model_core, rope_matches_the_reference) {
  std::mt19937 rng(4);
  const std::vector<std::int32_t> position{0, 1, 77, 1023, 1024, 30001};
  test::for_each_isa([&](const std::string&) {
    for (const auto& [dim, rotary] : {std::pair<int, int>{48, 48}, {64, 32}, {24, 24}, {10, 6}}) {
      for (const bool norm : {false, true}) {
        grid want({6, 3, dim}, 11), got({6, 3, dim}, 11);
        want.randomize(rng);
        got.copy(want);
        std::vector<float> weight = test::random_vector(rng, dim);
        const tensor_view view = norm ? test::view_of(weight) : tensor_view{};
        const rope_params rope{rotary, 500000.0F};
        reference_ops().run(op::head_norm_rope{want, view, 1e-6F, rope, position.data()});
        cpu_ops().run(op::head_norm_rope{got, view, 1e-6F, rope, position.data()});
        expect_close(got, want, 3e-6, "rope");
      }
    }
  });
}

TEST(model_core, kv_write_finds_pages) {
  std::mt19937 rng(5);
  const test::rows_fixture rows(rng, {5, 0, 9}, 150);
  for (const bool slots : {false, true}) {
    test::cache_fixture a(rng, 3, 3, 2, 12);
    grid before({8, 1});
    grid k({14, 2, 12}, 5), v({14, 2, 12}, 9);
    k.randomize(rng);
    v.randomize(rng);
    row_set set = rows.set;
    std::vector<std::int32_t> slot;
    for (const std::int32_t p : rows.position) slot.push_back(149 - p);
    if (slots) set.slot = slot.data();
    test::cache_fixture b(rng, 3, 3, 2, 12);
    b.keys.copy(a.keys);
    b.values.copy(a.values);
    b.table = a.table;
    b.kv.page_table = b.table.data();
    reference_ops().run(op::kv_write{set, k, v, a.kv});
    cpu_ops().run(op::kv_write{set, k, v, b.kv});
    for (std::int64_t p = 0; p < a.keys.rows(); ++p) {
      ASSERT_TRUE(test::same_bits(a.keys.row(p), b.keys.row(p), a.keys.columns()));
      ASSERT_TRUE(test::same_bits(a.values.row(p), b.values.row(p), a.values.columns()));
    }
    const std::int32_t s = slots ? slot[6] : rows.position[6];  // a row of sequence 2
    const std::int32_t page = a.table[static_cast<std::size_t>(2 * 3 + s / kv_page_size)];
    EXPECT_EQ(a.keys.at(page, (s % kv_page_size) * 24 + 13), k.at(6, 13));
  }
}

}  // namespace
}  // namespace unmask
