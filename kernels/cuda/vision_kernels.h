// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows of a picture's tower. All are bound by memory: one block per row, neighbouring threads on
// neighbouring elements.
#pragma once

#include "kernels/cuda/cache_access.h"
#include "kernels/vision.h"

namespace unmask::cuda::UNMASK_TARGET {

struct layer_norm_params {
  const float *x, *weight, *bias;  // [R, width], [width] twice
  float* out;                      // [R, width], may be x
  std::int64_t x_stride, out_stride;
  int width;
  float eps;
};

// Two passes over the row: the mean, then the squares around it.
UNMASK_KERNEL void layer_norm_kernel(layer_norm_params p) {
  shared_allocator shared;
  const shared_array<float> scratch = shared.take<float>(row_threads / warp_size);
  const float* x = p.x + block_index() * p.x_stride;
  float* out = p.out + block_index() * p.out_stride;
  const int first = static_cast<int>(thread_index());
  float sum = 0, squares = 0;
  for (int d = first; d < p.width; d += row_threads) sum += x[d];
  const float mean = block_sum(sum, scratch) / static_cast<float>(p.width);
  sync_block();
  for (int d = first; d < p.width; d += row_threads) {
    squares = fused_multiply_add(x[d] - mean, x[d] - mean, squares);
  }
  const float factor =
      reciprocal_sqrt(block_sum(squares, scratch) / static_cast<float>(p.width) + p.eps);
  for (int d = first; d < p.width; d += row_threads) {
    out[d] = (x[d] - mean) * factor * p.weight[d] + p.bias[d];
  }
}

struct gelu_params {
  const float* x;  // [R, width]
  float* out;      // [R, width], may be x
  std::int64_t x_stride, out_stride;
  int width;
  bool by_erf;
};

UNMASK_KERNEL void gelu_kernel(gelu_params p) {
  const float* from = p.x + block_index() * p.x_stride;
  float* out = p.out + block_index() * p.out_stride;
  for (int d = static_cast<int>(thread_index()); d < p.width; d += row_threads) {
    const float x = from[d];
    const float share =
        p.by_erf ? erff(x * 0.70710678F) : tanhf(0.79788456F * (x + 0.044715F * x * x * x));
    out[d] = 0.5F * x * (1.0F + share);
  }
}

struct patches_params {
  const std::uint8_t* pixels;  // [N, 3]
  std::int64_t pixel_stride, width;
  const std::int32_t* first;  // [R]
  const float* value;         // [3, 256]
  std::int64_t value_stride;
  float* out;  // [R, 3 patch patch]
  std::int64_t out_stride;
  int patch;
};

UNMASK_KERNEL void patches_kernel(patches_params p) {
  const std::int64_t first = p.first[block_index()];
  float* out = p.out + block_index() * p.out_stride;
  const int area = p.patch * p.patch;
  for (int i = static_cast<int>(thread_index()); i < 3 * area; i += row_threads) {
    const int channel = i / area, y = i % area / p.patch, x = i % p.patch;
    const std::uint8_t byte = p.pixels[(first + y * p.width + x) * p.pixel_stride + channel];
    out[i] = p.value[channel * p.value_stride + byte];
  }
}

struct blend_rows_params {
  const float* x;            // [N, width]
  const std::int32_t* from;  // [R, 4]
  const float *across, *down;
  float* out;  // [R, width]
  std::int64_t x_stride, out_stride;
  int width;
};

UNMASK_KERNEL void blend_rows_kernel(blend_rows_params p) {
  const std::int64_t r = block_index();
  const float a = p.across[r], b = p.down[r];
  const bool copies = a == 0 && b == 0;
  const float* x[4];
  for (int i = 0; i < 4; ++i) x[i] = p.x + p.from[4 * r + i] * p.x_stride;
  float* out = p.out + r * p.out_stride;
  for (int d = static_cast<int>(thread_index()); d < p.width; d += row_threads) {
    if (copies) {
      out[d] = x[0][d];
      continue;
    }
    const float above = (1 - a) * x[0][d] + a * x[1][d];
    const float below = (1 - a) * x[2][d] + a * x[3][d];
    out[d] = (1 - b) * above + b * below;
  }
}

struct place_pictures_params {
  const std::int32_t* token;  // [R]
  const float* pictures;      // [count, width]
  std::int64_t picture_stride, count;
  float* out;  // [R, width]
  std::int64_t out_stride;
  int width;
};

UNMASK_KERNEL void place_pictures_kernel(place_pictures_params p) {
  const std::int64_t token = p.token[block_index()];
  if (token >= 0) return;
  const bool valid = -1 - token < p.count;
  const float* from = p.pictures + (-1 - token) * p.picture_stride;
  float* out = p.out + block_index() * p.out_stride;
  for (int d = static_cast<int>(thread_index()); d < p.width; d += row_threads) {
    out[d] = valid ? from[d] : float_bits(0x7FC00000U);
  }
}

}  // namespace unmask::cuda::UNMASK_TARGET
