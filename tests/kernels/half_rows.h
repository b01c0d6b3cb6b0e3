// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/float16.h"
#include "kernels/tensor.h"

namespace unmask::test {

// bfloat16 rows, `gap` elements further apart than they must; NaN until written.
struct half_rows {
  std::vector<std::uint16_t> values;
  tensor_view view;
  half_rows(std::int64_t rows, std::int64_t width, std::int64_t gap = 0)
      : values(static_cast<std::size_t>(rows * (width + gap)), 0xFFFF) {
    view = make_view(values.data(), dtype::bf16, {rows, width});
    view.row_stride = width + gap;
  }
  float at(std::int64_t r, std::int64_t c) const {
    return from_bf16(values[static_cast<std::size_t>(r * view.row_stride + c)]);
  }
  void fill_normal(std::mt19937& rng, float scale) {
    std::normal_distribution<float> normal(0.0F, scale);
    for (std::uint16_t& v : values) v = to_bf16(normal(rng));
  }
};

}  // namespace unmask::test
