// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What a picture's tower needs besides the operations of model_core.h and attention.h.
#pragma once

#include "kernels/operation.h"

namespace unmask {

// erf: x P(X <= x) of a standard normal X; tanh: its approximation (arXiv 1606.08415).
enum class gelu_form : std::uint8_t { erf, tanh };

namespace op {

// out = (x - mean) / sqrt(variance + eps) * weight + bias, row-wise; x, out [R, D] (may alias),
// weight, bias [D]; all f32.
struct layer_norm {
  tensor_view x;
  tensor_view weight;
  tensor_view bias;
  float eps = 0;
  tensor_view out;
};

// out = gelu(x), element by element; x, out [R, D] f32 (may alias).
struct gelu {
  tensor_view x;
  gelu_form form = gelu_form::erf;
  tensor_view out;
};

// Patches of pictures as rows: out[r, (c p + y) p + x] = value[c, byte], the byte being channel c of
// the pixel y rows below and x columns right of pixel first[r]. pixels [N, 3] u8, rows of `width`
// pixels one after the other; value [3, 256] f32; out [R, 3 p p] f32.
struct patches {
  tensor_view pixels;
  std::int64_t width = 0;
  const std::int32_t* first = nullptr;  // [R]
  std::int64_t patch = 1;               // p
  tensor_view value;
  tensor_view out;
};

// Rows between four others: out[r] = (1 - b) ((1 - a) x0 + a x1) + b ((1 - a) x2 + a x3) with
// xi = x[from[4 r + i]], a = across[r], b = down[r]. A row whose a and b are 0 is a copy of x0. x
// [N, D], out [R, D], both f32.
struct blend_rows {
  tensor_view x;
  const std::int32_t* from = nullptr;  // [R, 4]
  const float* across = nullptr;       // [R]
  const float* down = nullptr;         // [R]
  tensor_view out;
};

// Rows of a prompt that are rows of a picture: out[r] = pictures[-1 - token[r]] where token[r] is below
// 0; other rows stay as they are. It runs behind op::embed, which leaves NaN in these rows. A token
// below -P gives NaN. pictures [P, D], out [R, D], both f32.
struct place_pictures {
  const std::int32_t* token = nullptr;  // [R]
  tensor_view pictures;
  tensor_view out;
};

}  // namespace op
}  // namespace unmask
