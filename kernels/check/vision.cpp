// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Cases of the operations of a picture's tower.
#include "kernels/vision.h"

#include "kernels/check/checker.h"
#include "kernels/operation.h"

namespace unmask::device_checks {
namespace {

void rows_of_tower(checker& c) {
  const std::int64_t rows = c.size(9, 729), width = c.size(37, 4304);
  const mirrored x = c.reals({rows, width}, 2.0F), weight = c.reals({width}),
                 bias = c.reals({width}), normed = c.poisoned({rows, width});
  c.both([&](const side& s) {
    s.with().run(op::layer_norm{s(x), s(weight), s(bias), 1e-6F, s(normed)});
  });
  c.compare_typical("layer_norm", c.text({rows, width}), normed, 1e-5);
  for (const gelu_form form : {gelu_form::erf, gelu_form::tanh}) {
    const mirrored y = c.poisoned({rows, width});
    c.both([&](const side& s) { s.with().run(op::gelu{s(x), form, s(y)}); });
    c.compare("gelu", form == gelu_form::erf ? "erf" : "tanh", y, 1e-5, 1e-6);
  }
}

void pixels(checker& c) {
  const std::int64_t side_length = c.size(12, 384), patch = c.size(4, 14);
  const std::int64_t across = side_length / patch, rows = across * across;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(side_length * side_length * 3));
  for (std::uint8_t& b : bytes) b = static_cast<std::uint8_t>(c.below(256));
  const mirrored flat = c.values(dtype::u8, bytes), value = c.reals({3, 256}),
                 y = c.poisoned({rows, 3 * patch * patch});
  std::vector<std::int32_t> at;
  for (std::int64_t r = 0; r < rows; ++r) {
    at.push_back(static_cast<std::int32_t>(r / across * patch * side_length + r % across * patch));
  }
  const mirrored first = c.ints(at);
  c.both([&](const side& s) {
    const tensor_view by_pixel =
        make_view(s(flat).view().data, dtype::u8, {side_length * side_length, 3});
    s.with().run(op::patches{by_pixel, side_length, s.at(first), patch, s(value), s(y)});
  });
  c.same("patches", c.text({rows, patch, patch}), y);
}

void rows_of_prompt(checker& c) {
  const std::int64_t from = c.size(23, 3646), rows = c.size(17, 1485), width = c.size(33, 4096);
  const mirrored x = c.reals({from, width}), y = c.poisoned({rows, width}),
                 placed = c.poisoned({rows, width});
  std::vector<std::int32_t> four, tokens;
  std::vector<float> a, b;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (int i = 0; i < 4; ++i) four.push_back(c.below(from));
    a.push_back(static_cast<float>(c.below(4)) / 4);
    b.push_back(static_cast<float>(c.below(3)) / 4);
    tokens.push_back(-1 - c.below(from));
  }
  const mirrored index = c.ints(four), across = c.values(dtype::f32, a),
                 down = c.values(dtype::f32, b), token = c.ints(tokens);
  c.both([&](const side& s) {
    s.with().run(op::blend_rows{s(x), s.at(index), s.at<float>(across), s.at<float>(down), s(y)});
    s.with().run(op::place_pictures{s.at(token), s(x), s(placed)});
  });
  c.compare("blend_rows", c.text({rows, width}), y, 1e-6, 1e-6);
  c.same("place_pictures", c.text({rows, width}), placed);
}

const register_device_check of_rows("layer_norm", rows_of_tower), of_pixels("patches", pixels),
    of_prompt("blend_rows", rows_of_prompt);

}  // namespace
}  // namespace unmask::device_checks
