// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Operands of the operations of a picture's tower.
#include "kernels/vision.h"
#include "tests/kernels/scenes.h"

namespace unmask::test {
namespace {

const auto norms = for_each_of<std::int64_t>({1, 3, 33, 128, 515}, [](std::int64_t width) {
  return declared(
      [=](operands& at, const batch& b) {
        return op::layer_norm{at.normal(b, few_rows(b), {width}, 1, 7, 2), at.shared({width}, 2),
                              at.shared({width}, 3), 1e-6F,
                              at.out_rows<float>(few_rows(b), {width}, 5)};
      },
      4e-6);
});
const declared norm_in_place(
    [](operands& at, const batch& b) {
      const auto x = normal_values(b, few_rows(b), 100, 1);
      const tensor_view both = at.out_rows<float>(few_rows(b), {100}, 3, x);
      return op::layer_norm{both, at.shared({100}, 2), at.shared({100}, 3), 1e-6F, both};
    },
    4e-6);

// Numbers far from 0 too, where the form has its limits 0 and x.
const auto gelus = for_each_of<gelu_form>({gelu_form::erf, gelu_form::tanh}, [](gelu_form form) {
  return declared(
      [=](operands& at, const batch& b) {
        const auto x = normal_values(b, few_rows(b), 67, 1, 4);
        const tensor_view both = at.out_rows<float>(few_rows(b), {67}, 2, x);
        return op::gelu{both, form, both};
      },
      2e-6);
});

const declared cut_into_patches([](operands& at, const batch& b) {
  constexpr std::int64_t width = 11, height = 9, patch = 3;
  std::mt19937 rng = rng_of(-1, 1);
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3));
  for (std::uint8_t& byte : pixels) byte = static_cast<std::uint8_t>(draw(rng, 0, 255));
  const auto first = joined<std::int32_t>(b, [&](int s) {
    indices f;
    for (std::int64_t r = 0; r < few(s); ++r) {
      const auto y = static_cast<std::int32_t>((s + r) % (height - patch + 1));
      f.push_back(y * static_cast<std::int32_t>(width) +
                  static_cast<std::int32_t>((s * 5 + r) % (width - patch + 1)));
    }
    return f;
  });
  return op::patches{
      at.in(pixels, {3}),     width,
      at.in(first),           patch,
      at.shared({3, 256}, 2), at.out_rows<float>(few_rows(b), {3 * patch * patch}, 4)};
});

const declared blend([](operands& at, const batch& b) {
  const counts n = few_rows(b);
  const auto from = joined<std::int32_t>(b, [](int s) {
    indices f;
    for (std::int64_t i = 0; i < 4 * few(s); ++i) f.push_back((s * 3 + static_cast<int>(i)) % 7);
    return f;
  });
  // A share of 0 on both axes is a copy.
  const auto shares = [&](int array) {
    return joined<float>(b, [&](int s) {
      std::mt19937 rng = rng_of(s, array);
      std::vector<float> v = random_vector(rng, few(s), 1);
      for (std::size_t i = 0; i < v.size(); ++i) v[i] = i % 2 == 0 ? 0 : std::abs(v[i]) / 8;
      return v;
    });
  };
  return op::blend_rows{at.shared({7, 19}, 1), at.in(from), at.in(shares(2)), at.in(shares(3)),
                        at.out_rows<float>(n, {19}, 3)};
});

// Tokens of text, rows of a picture, and one that no picture has.
const declared placed([](operands& at, const batch& b) {
  const auto token = joined<std::int32_t>(b, [](int s) {
    indices t;
    for (std::int64_t r = 0; r < few(s); ++r) {
      const auto i = static_cast<std::int32_t>(s * 3 + r * 5);
      t.push_back(i % 3 == 0 ? i : i % 11 == 7 ? -8 : -1 - i % 7);
    }
    return t;
  });
  const auto before = normal_values(b, few_rows(b), 19, 4);
  return op::place_pictures{at.in(token), at.shared({7, 19}, 1),
                            at.out_rows<float>(few_rows(b), {19}, 3, before)};
});

}  // namespace
}  // namespace unmask::test
