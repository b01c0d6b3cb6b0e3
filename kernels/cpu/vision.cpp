// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Rows of a picture's tower on all cores. Patches and blends are copies and stay the reference's.
#include "kernels/vision.h"

#include <cmath>
#include <numbers>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/row_kernels.h"

namespace unmask::cpu {
namespace {

void layer_norm(const op::layer_norm& args) {
  const std::int64_t rows = args.x.rows(), width = args.x.columns();
  const float *w = args.weight.as<float>(), *b = args.bias.as<float>();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = args.x.row<float>(r);
    float* out = args.out.row<float>(r);
    double sum = 0, squares = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += in[d];
    const double mean = sum / static_cast<double>(width);
    for (std::int64_t d = 0; d < width; ++d) squares += (in[d] - mean) * (in[d] - mean);
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(width) + args.eps);
    for (std::int64_t d = 0; d < width; ++d) {
      out[d] = static_cast<float>((in[d] - mean) * factor) * w[d] + b[d];
    }
  }
}

void gelu(const backend& backend, const op::gelu& args) {
  const std::int64_t rows = args.x.rows(), width = args.x.columns();
#pragma omp parallel for schedule(static) if (rows * width > parallel_elements)
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* in = args.x.row<float>(r);
    float* out = args.out.row<float>(r);
    if (args.form == gelu_form::erf) {
      for (std::int64_t d = 0; d < width; ++d) {
        out[d] = 0.5F * in[d] * (1 + std::erf(in[d] / std::numbers::sqrt2_v<float>));
      }
    } else {
      backend.rows().gelu_tanh(in, width, out);
    }
  }
}

const register_operations<layer_norm, gelu> registered(target::cpu);

}  // namespace
}  // namespace unmask::cpu
