// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/vision.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace unmask::reference {
namespace {

void layer_norm(const op::layer_norm& args) {
  const std::int64_t width = args.x.columns();
  const auto n = static_cast<double>(width);
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    const float* in = args.x.row<float>(r);
    double sum = 0, squares = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += in[d];
    const double mean = sum / n;
    for (std::int64_t d = 0; d < width; ++d) squares += (in[d] - mean) * (in[d] - mean);
    const double factor = 1.0 / std::sqrt(squares / n + args.eps);
    for (std::int64_t d = 0; d < width; ++d) {
      args.out.row<float>(r)[d] = static_cast<float>(
          (in[d] - mean) * factor * args.weight.as<float>()[d] + args.bias.as<float>()[d]);
    }
  }
}

double gelu_of(double x, gelu_form form) {
  if (form == gelu_form::erf) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

void gelu(const op::gelu& args) {
  for (std::int64_t r = 0; r < args.x.rows(); ++r) {
    for (std::int64_t d = 0; d < args.x.columns(); ++d) {
      args.out.row<float>(r)[d] =
          static_cast<float>(gelu_of(double{args.x.row<float>(r)[d]}, args.form));
    }
  }
}

void patches(const op::patches& args) {
  for (std::int64_t r = 0; r < args.out.rows(); ++r) {
    float* to = args.out.row<float>(r);
    for (std::int64_t c = 0; c < 3; ++c) {
      for (std::int64_t y = 0; y < args.patch; ++y) {
        for (std::int64_t x = 0; x < args.patch; ++x) {
          const std::uint8_t byte =
              args.pixels.row<std::uint8_t>(args.first[r] + y * args.width + x)[c];
          *to++ = args.value.row<float>(c)[byte];
        }
      }
    }
  }
}

void blend_rows(const op::blend_rows& args) {
  for (std::int64_t r = 0; r < args.out.rows(); ++r) {
    const float a = args.across[r], b = args.down[r];
    const auto from = [&](std::int64_t i) { return args.x.row<float>(args.from[4 * r + i]); };
    float* to = args.out.row<float>(r);
    for (std::int64_t d = 0; d < args.out.columns(); ++d) {
      if (a == 0 && b == 0) {
        to[d] = from(0)[d];
        continue;
      }
      const float above = (1 - a) * from(0)[d] + a * from(1)[d];
      const float below = (1 - a) * from(2)[d] + a * from(3)[d];
      to[d] = (1 - b) * above + b * below;
    }
  }
}

void place_pictures(const op::place_pictures& args) {
  for (std::int64_t r = 0; r < args.out.rows(); ++r) {
    if (args.token[r] >= 0) continue;
    const std::int64_t row = -1 - std::int64_t{args.token[r]};
    for (std::int64_t d = 0; d < args.out.columns(); ++d) {
      args.out.row<float>(r)[d] = row < args.pictures.rows()
                                      ? args.pictures.row<float>(row)[d]
                                      : std::numeric_limits<float>::quiet_NaN();
    }
  }
}

const register_operations<layer_norm, gelu, patches, blend_rows, place_pictures> registered(
    target::reference);

}  // namespace
}  // namespace unmask::reference
