// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The numbers of weight_format::int8, once for the reference and the CUDA backend's host code and
// kernels. A row of weights (an output feature) or of activations becomes levels and a scale:
//   scale = max_k |x_k| / 127,  level_k = round-half-even(x_k / scale) in [-127, 127];
//   y_n = (sum_k level_k level'_nk) * scale * scale'_n, in float64 and in this order.
// A row of zeros has the scale 0 and levels 0. One with a NaN or an infinity has the scale NaN and
// levels 0: whatever it is multiplied by gives NaN. The CPU backend multiplies by 127 / max instead
// of dividing, so that a level of its may differ by one where x / scale is next to a half.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace unmask {

// largest: max_k |x_k|, infinity or NaN where the row has one.
UNMASK_HOST_DEVICE inline float int8_scale(float largest) {
  return largest - largest == 0 ? largest / 127.0F : NAN;
}

// A scale that is subnormal may be rounded by so much that a level would be larger than 127.
UNMASK_HOST_DEVICE inline std::int8_t int8_level(float x, float scale) {
  if (!(scale > 0)) return 0;
  const float level = nearbyintf(x / scale);
  return static_cast<std::int8_t>(level > 127.0F ? 127.0F : level < -127.0F ? -127.0F : level);
}

// The levels of one row; returns its scale.
inline float quantize_row(const float* x, std::int64_t width, std::int8_t* level) {
  float largest = 0;
  for (std::int64_t k = 0; k < width; ++k) {
    const float size = std::fabs(x[k]);
    if (size > largest || size != size) largest = size;  // nothing is larger than NaN
  }
  const float scale = int8_scale(largest);
  for (std::int64_t k = 0; k < width; ++k) level[k] = int8_level(x[k], scale);
  return scale;
}

}  // namespace unmask
