// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// int8 weights on the CUDA kernels, emulated. Sums are integers and the scales are applied as the
// reference applies them, so results are the reference's bits: with the library's stand-in and the
// kernel that scales its sums, and with the own tile.
#include <array>

#include "kernels/cuda/emulation.h"
#include "kernels/float16.h"
#include "kernels/head.h"
#include "kernels/int8.h"
#include "kernels/model_core.h"
#include "kernels/moe.h"
#include "tests/kernels/support.h"

namespace unmask {
namespace {

using test::grid;

constexpr weight_format int8 = weight_format::int8;

void for_each_path(const std::function<void(const backend&)>& body) {
  test::for_each_device([&](const backend& device) {
    for (const bool own : {false, true}) {
      SCOPED_TRACE(own ? "own products" : "library");
      cuda::choices choices = cuda::choices_of_environment();
      choices.own_products = own;
      body(test::with(choices, device));
    }
  });
}

void expect_same(const grid& got, const grid& want, const char* what) {
  for (std::int64_t r = 0; r < want.rows(); ++r) {
    for (std::int64_t c = 0; c < want.columns(); ++c) {
      ASSERT_TRUE(test::same_bits(got.row(r) + c, want.row(r) + c, 1))
          << what << " at " << r << ", " << c << ": " << got.at(r, c) << " instead of "
          << want.at(r, c);
    }
  }
}

// Rows of every kind: random ones of several sizes, zeros, one element that dwarfs the others, and
// levels that lie between two integers.
void fill(grid& x, std::mt19937& rng) {
  x.randomize(rng);
  for (std::int64_t r = 0; r < x.rows(); ++r) {
    const std::int64_t kind = r % 7;
    for (std::int64_t c = 0; c < x.columns(); ++c) {
      if (kind == 1) x.at(r, c) = 0;
      if (kind == 2) x.at(r, c) *= 1e-30F;
      if (kind == 3) x.at(r, c) = static_cast<float>((c * 5 + r) % 250 - 125) + 0.5F;
    }
    if (kind == 3) x.at(r, 0) = -127;
    if (kind == 4) x.at(r, r % x.columns()) = 3e30F;
    if (kind == 5) x.at(r, x.columns() - 1) = -1e6F;
  }
}

TEST(int8_rows, levels_and_scale_are_those_of_the_definition) {
  const auto levels_of = [](std::vector<float> x, float* scale) {
    std::vector<std::int8_t> level(x.size(), 99);
    *scale = quantize_row(x.data(), static_cast<std::int64_t>(x.size()), level.data());
    return std::vector<int>(level.begin(), level.end());
  };
  float scale = 0;
  // Halves go to the even level.
  EXPECT_EQ(levels_of({-127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 126.5F}, &scale),
            (std::vector<int>{-127, 0, 2, 2, 0, -2, 126}));
  EXPECT_EQ(scale, 1);
  EXPECT_EQ(levels_of({0, 0, -0.0F}, &scale), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(scale, 0);
  for (const float bad : {test::nan, test::infinity, -test::infinity}) {
    EXPECT_EQ(levels_of({1, bad, 2}, &scale), (std::vector<int>{0, 0, 0}));
    EXPECT_TRUE(std::isnan(scale));
  }
  // The largest magnitudes that round to a scale of one and of zero subnormal steps.
  const float step = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(levels_of({190 * step, -190 * step}, &scale), (std::vector<int>{127, -127}));
  EXPECT_EQ(scale, step);
  EXPECT_EQ(levels_of({60 * step}, &scale), (std::vector<int>{0}));
}

TEST(device_int8, linear_gives_the_bits_of_the_reference_and_of_the_batch) {
  for_each_path([&](const backend& device) {
    EXPECT_EQ(device.activation_type(int8), dtype::f32);
    for (const auto& [rows, depth, features] : {std::array<int, 3>{1, 1, 1},
                                                {3, 7, 5},
                                                {9, 129, 47},
                                                {17, 33, 97},
                                                {70, 50, 130},
                                                {16, 64, 16}}) {
      std::mt19937 rng(7);
      grid x({rows, depth}, 3), w({features, depth}, 1), before({rows, features});
      fill(x, rng);
      fill(w, rng);
      before.randomize(rng, 1e3F);
      std::vector<float> bias = test::random_vector(rng, features);
      const packed_handle packed = device.pack(w, int8);
      const packed_handle slow = reference_backend().pack(w, int8);
      for (const bool biased : {false, true}) {
        for (const bool accumulate : {false, true}) {
          grid y({rows, features}, 2), want({rows, features});
          if (accumulate) {
            y.copy(before);
            want.copy(before);
          }
          const tensor_view b = biased ? test::view_of(bias) : tensor_view{};
          reference_backend().run(op::linear{x, *slow, b, want, accumulate});
          device.run(op::linear{x, *packed, b, y, accumulate});
          device.synchronize();
          expect_same(y, want, "linear");
          for (std::int64_t r = 0; r + 1 < rows; ++r) {
            ASSERT_TRUE(std::isnan(y.row(r)[features]));  // the gap behind a row is not written
          }
        }
      }
      grid all({rows, features}), one({1, features});
      device.run(op::linear{x, *packed, {}, all, false});
      device.run(op::linear{x.view().slice(rows / 2, 1), *packed, {}, one, false});
      device.synchronize();
      ASSERT_TRUE(test::same_bits(one.row(0), all.row(rows / 2), features));
    }
  });
}

// More sums than one piece of rows may have.
TEST(device_int8, many_sums_go_in_pieces_of_rows) {
  const backend& device = cuda_emulated_backend();
  const std::int64_t rows = 131, depth = 3, features = 66000;
  std::mt19937 rng(3);
  grid x({rows, depth}), w({features, depth}), y({rows, features}), want({rows, features});
  fill(x, rng);
  fill(w, rng);
  reference_backend().run(op::linear{x, *reference_backend().pack(w, int8), {}, want, false});
  device.run(op::linear{x, *device.pack(w, int8), {}, y, false});
  device.synchronize();
  expect_same(y, want, "linear");
}

// What is no number stays in its row, or in its output feature.
TEST(device_int8, a_row_with_nan_or_infinity_gives_nan) {
  for_each_path([&](const backend& device) {
    std::mt19937 rng(9);
    grid x({5, 20}), w({6, 20}), y({5, 6}), want({5, 6});
    x.randomize(rng);
    w.randomize(rng);
    x.at(1, 19) = test::nan;
    x.at(3, 0) = -test::infinity;
    w.at(4, 7) = test::infinity;
    reference_backend().run(op::linear{x, *reference_backend().pack(w, int8), {}, want, false});
    device.run(op::linear{x, *device.pack(w, int8), {}, y, false});
    device.synchronize();
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t n = 0; n < 6; ++n) {
        EXPECT_EQ(std::isnan(y.at(r, n)), r == 1 || r == 3 || n == 4);
        EXPECT_EQ(std::isnan(want.at(r, n)), r == 1 || r == 3 || n == 4);
      }
    }
  });
}

TEST(device_int8, packs_every_float_type_and_refuses_what_it_cannot_do) {
  const backend& device = cuda_emulated_backend();
  std::mt19937 rng(4);
  grid w({19, 37}), x({2, 37}), want({2, 19}), got({2, 19});
  w.randomize(rng);
  x.randomize(rng);
  std::vector<std::uint16_t> half;
  for (std::int64_t n = 0; n < 19; ++n) {
    for (std::int64_t k = 0; k < 37; ++k) {
      half.push_back(to_bf16(w.at(n, k)));
      w.at(n, k) = from_bf16(half.back());
    }
  }
  const packed_handle packed = device.pack(make_view(half.data(), dtype::bf16, {19, 37}), int8);
  EXPECT_EQ(packed->bytes, 19U * 48 + 19 * 4);  // rows padded to 16 bytes, and a scale for each
  device.run(op::linear{x, *device.pack(w, int8), {}, want, false});
  device.run(op::linear{x, *packed, {}, got, false});
  device.synchronize();
  expect_same(got, want, "bfloat16 source");

  EXPECT_THROW(device.pack(make_view(half.data(), dtype::bf16, {1, 1 << 18}), int8), error);
  // Rows of bfloat16 are quantised as those of their values; results are float32 only.
  const tensor_view rounded = make_view(half.data(), dtype::bf16, {2, 37});
  device.run(op::linear{w.view().slice(0, 2), *packed, {}, want, false});
  device.run(op::linear{rounded, *packed, {}, got, false});
  device.synchronize();
  expect_same(got, want, "bfloat16 rows");
  std::vector<std::uint16_t> room(2 * 19);
  EXPECT_THROW(
      device.run(op::linear{x, *packed, {}, make_view(room.data(), dtype::bf16, {2, 19}), false}),
      std::logic_error);
  grid wrong({2, 18});
  EXPECT_THROW(device.run(op::linear{x, *packed, {}, wrong, false}), std::logic_error);
}

// Candidates in any order and more than once; one chunk of the vocabulary, and two.
TEST(device_int8, head_follows_the_reference) {
  for_each_path([&](const backend& device) {
    for (const std::int64_t vocabulary : {100, 9001}) {
      std::mt19937 rng(21);
      const std::int64_t width = 17;
      grid x({9, width}, 2), w({vocabulary, width});
      x.randomize(rng);
      w.randomize(rng, 0.7F);
      const packed_handle head = device.pack(w, int8), slow = reference_backend().pack(w, int8);
      const std::vector<std::int32_t> row{8, 0, 3, 3, 5};
      grid want({5, vocabulary}), got({5, vocabulary}, 3);
      reference_backend().run(op::logits{x, *slow, row.data(), want});
      device.run(op::logits{x, *head, row.data(), got});
      device.synchronize();
      expect_same(got, want, "logits");

      test::candidates_fixture c;
      c.add({3, 9});
      c.add({1, 4, 8});
      c.row = row;
      struct result {
        std::vector<std::int32_t> token = std::vector<std::int32_t>(5, -77);
        std::vector<float> probability = std::vector<float>(5, test::nan), entropy = probability;
        confidence_out out() {
          return {token.data(), probability.data(), nullptr, entropy.data(), nullptr, nullptr};
        }
      } right, is;
      reference_backend().run(op::confidence{x, *slow, c.set(), {}, right.out()});
      device.run(op::confidence{x, *head, c.set(), {}, is.out()});
      device.synchronize();
      EXPECT_EQ(is.token, right.token);
      test::expect_close(is.probability, right.probability, 5e-6, "probability");
      test::expect_close(is.entropy, right.entropy, 6e-6, "entropy");

      // A candidate alone.
      test::candidates_fixture alone;
      alone.add({4});
      alone.row = {3};
      result single;
      device.run(op::confidence{x, *head, alone.set(), {}, single.out()});
      device.synchronize();
      EXPECT_TRUE(test::same_bits(single.probability.data(), is.probability.data() + 3, 1));
    }
  });
}

// The experts' tensor-core product against the same chain of dense products, and the reference.
TEST(device_int8, routed_experts_are_the_dense_products_of_their_rows) {
  for_each_path([&](const backend& device) {
    std::mt19937 rng(14);
    const std::int64_t width = 71, hidden = 43, rows = 40, k = 2;
    moe_experts own, slow;
    own.hidden = slow.hidden = static_cast<std::int32_t>(hidden);
    for (int e = 0; e < 5; ++e) {
      grid up({2 * hidden, width}), down({width, hidden});
      up.randomize(rng, 0.2F);
      down.randomize(rng, 0.2F);
      for (auto& [backend, experts] : {std::pair<const backend*, moe_experts*>{&device, &own},
                                       {&reference_backend(), &slow}}) {
        experts->gate_up.push_back(backend->pack(up, int8));
        experts->down.push_back(backend->pack(down, int8));
      }
    }
    // Expert 0 gets every row and more than a tile; expert 4 none; one is a padding row.
    std::vector<std::int32_t> expert;
    std::vector<float> weight;
    for (std::int32_t r = 0; r < rows; ++r) {
      const std::int32_t second = r % 3 == 0 ? r % 4 : 1;
      expert.insert(expert.end(), {r == 11 ? -1 : 0, r == 11 ? -1 : second});
      weight.insert(weight.end(), {0.75F, 0.5F});
    }
    const tensor_view routed = make_view(expert.data(), dtype::i32, {rows, k});
    const tensor_view shares = make_view(weight.data(), dtype::f32, {rows, k});
    grid x({rows, width}, 2), before({rows, width}), got({rows, width}, 4), want({rows, width}),
        chain({rows, width}), one({1, width});
    fill(x, rng);
    for (std::int64_t c = 0; c < width; ++c) x.at(4, c) /= 1e30F;  // squared, it would overflow
    x.at(18, 4) = 3;
    x.at(25, 4) = x.at(32, 4) = x.at(39, 4) = x.at(11, 4) = -2;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < width; ++c) {
        if (std::fabs(x.at(r, c)) > 1e3F) x.at(r, c) = 5;
      }
    }
    before.randomize(rng);
    got.copy(before);
    want.copy(before);
    chain.copy(before);
    std::copy_n(before.row(7), width, one.row(0));
    device.run(op::moe_feed_forward{x, routed, shares, own, got});
    device.run(op::moe_feed_forward{x.view().slice(7, 1), routed.slice(7, 1), shares.slice(7, 1),
                                    own, one});
    reference_backend().run(op::moe_feed_forward{x, routed, shares, slow, want});
    grid pair({1, 2 * hidden}), gated({1, hidden}), out({1, width});
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < k; ++i) {
        if (r == 11) continue;
        const auto e = static_cast<std::size_t>(expert[static_cast<std::size_t>(r * k + i)]);
        device.run(op::linear{x.view().slice(r, 1), *own.gate_up[e], {}, pair, false});
        device.run(op::silu_mul{pair, gated});
        device.run(op::linear{gated, *own.down[e], {}, out, false});
        device.synchronize();
        for (std::int64_t d = 0; d < width; ++d) {
          chain.at(r, d) += weight[static_cast<std::size_t>(r * k + i)] * out.at(0, d);
        }
      }
    }
    device.synchronize();
    for (std::int64_t r = 0; r < rows; ++r) {
      EXPECT_TRUE(test::same_bits(got.row(r), chain.row(r), width)) << r;
    }
    // The gated values are float32 here and float64 there: a level may be its neighbour.
    test::expect_close(got, want, 5e-2, "experts and reference");
    EXPECT_TRUE(test::same_bits(one.row(0), got.row(7), width));
    EXPECT_TRUE(test::same_bits(got.row(11), before.row(11), width));
  });
}

// Quantised rows, sums and scales lie in scratch memory: a recording must use them as a launch
// does.
TEST(device_int8, recorded_products_read_what_is_there_when_they_are_repeated) {
  const cuda::emulation saved = cuda::current_emulation();
  cuda::set_emulation({{}, true, true});
  for (const bool own : {false, true}) {
    const backend& device = cuda_emulated_backend({.own_products = own});
    std::mt19937 rng(6);
    grid w({33, 40}), other({33, 40}), want({6, 33});
    w.randomize(rng);
    const packed_handle packed = device.pack(w, int8), slow = reference_backend().pack(w, int8);
    const tensor x = device.allocate(dtype::f32, {6, 40}), y = device.allocate(dtype::f32, {6, 33});
    const auto draw = [&] {
      const std::vector<float> values = test::random_vector(rng, 240);
      std::copy(values.begin(), values.end(), x.as<float>());
    };
    const auto expect = [&] {
      device.synchronize();
      reference_backend().run(op::linear{x, *slow, {}, want, false});
      for (std::int64_t r = 0; r < 6; ++r) {
        EXPECT_TRUE(test::same_bits(y.row<float>(r), want.row(r), 33));
      }
    };
    const auto body = [&] { device.run(op::linear{x, *packed, {}, y, false}); };
    draw();
    body();
    expect();
    const auto work = device.capture(body);
    draw();
    device.replay(*work);
    expect();
    device.synchronize();
  }
  cuda::set_emulation(saved);
}

}  // namespace
}  // namespace unmask
