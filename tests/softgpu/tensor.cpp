// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// mma.sync: fragments as the PTX ISA defines them (9.7.14.5).
#include "tests/softgpu/tensor.h"

#include <algorithm>
#include <cmath>

namespace unmask::softgpu {

// Sums as tensor cores were seen to: terms are cut to a step below the largest, and the result is cut to
// float32 (Fasi, Higham, Mikaitis, Pranesh: Numerical behavior of NVIDIA tensor cores, 2021).
float cut_sum(float c, const double* products, int stride, int count) {
  double top = std::fabs(static_cast<double>(c));
  bool finite = std::isfinite(c);
  for (int k = 0; k < count; ++k) {
    top = std::max(top, std::fabs(products[k * stride]));
    finite = finite && std::isfinite(products[k * stride]);
  }
  if (!finite) {
    double sum = c;
    for (int k = 0; k < count; ++k) sum += products[k * stride];
    return static_cast<float>(sum);
  }
  if (top == 0) return c;
  int e = 0;
  std::frexp(top, &e);
  const double step = std::ldexp(1.0, e - 25);
  double sum = std::trunc(static_cast<double>(c) / step);
  for (int k = 0; k < count; ++k) sum += std::trunc(products[k * stride] / step);
  sum *= step;
  float f = static_cast<float>(sum);
  if (std::fabs(static_cast<double>(f)) > std::fabs(sum)) f = std::nextafter(f, 0.0F);
  return f;
}

void mma_bf16(warp& w, const instruction& i) {
  float a[16][16], b[16][8], c[16][8];
  const u32* ra[4];
  const u32* rb[2];
  const float* rc[4];
  for (int n = 0; n < 4; ++n) ra[n] = w.at<u32>(i.o[4 + n]);
  for (int n = 0; n < 2; ++n) rb[n] = w.at<u32>(i.o[8 + n]);
  for (int n = 0; n < 4; ++n) rc[n] = w.at<float>(i.o[10 + n]);
  for (int l = 0; l < 32; ++l) {
    const int g = l >> 2, t = l & 3;
    for (int n = 0; n < 4; ++n) {
      const int row = g + (n & 1) * 8, column = t * 2 + (n >> 1) * 8;
      a[row][column] = low_bf16(ra[n][l]);
      a[row][column + 1] = high_bf16(ra[n][l]);
    }
    for (int n = 0; n < 2; ++n) {
      b[t * 2 + n * 8][g] = low_bf16(rb[n][l]);
      b[t * 2 + n * 8 + 1][g] = high_bf16(rb[n][l]);
    }
    for (int n = 0; n < 4; ++n) c[g + (n >> 1) * 8][t * 2 + (n & 1)] = rc[n][l];
  }
  if (options().rough) {
    for (int r = 0; r < 16; ++r) {
      double products[16][8];
      for (int k = 0; k < 16; ++k) {
        for (int n = 0; n < 8; ++n)
          products[k][n] = static_cast<double>(a[r][k]) * static_cast<double>(b[k][n]);
      }
      for (int n = 0; n < 8; ++n) c[r][n] = cut_sum(c[r][n], &products[0][n], 8, 16);
    }
  }
  for (int r = 0; r < 16 && !options().rough; ++r) {
    double sum[8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int n = 0; n < 8; ++n)
        sum[n] += static_cast<double>(a[r][k]) * static_cast<double>(b[k][n]);
    }
    for (int n = 0; n < 8; ++n) c[r][n] = static_cast<float>(static_cast<double>(c[r][n]) + sum[n]);
  }
  for (int n = 0; n < 4; ++n) {
    float* d = w.at<float>(i.o[n]);
    for (int l = 0; l < 32; ++l) d[l] = c[(l >> 2) + (n >> 1) * 8][(l & 3) * 2 + (n & 1)];
  }
}

void mma_int8(warp& w, const instruction& i) {
  std::int8_t a[16][32], b[32][8];
  std::int32_t c[16][8];
  for (int l = 0; l < 32; ++l) {
    const int g = l >> 2, t = l & 3;
    for (int n = 0; n < 4; ++n) {
      const u32 v = w.at<u32>(i.o[4 + n])[l];
      for (int e = 0; e < 4; ++e) {
        a[g + (n & 1) * 8][t * 4 + e + (n >> 1) * 16] = static_cast<std::int8_t>(v >> (8 * e));
      }
    }
    for (int n = 0; n < 2; ++n) {
      const u32 v = w.at<u32>(i.o[8 + n])[l];
      for (int e = 0; e < 4; ++e) b[t * 4 + e + n * 16][g] = static_cast<std::int8_t>(v >> (8 * e));
    }
    for (int n = 0; n < 4; ++n) {
      c[g + (n >> 1) * 8][t * 2 + (n & 1)] = static_cast<std::int32_t>(w.at<u32>(i.o[10 + n])[l]);
    }
  }
  for (int r = 0; r < 16; ++r) {
    for (int k = 0; k < 32; ++k) {
      for (int n = 0; n < 8; ++n) c[r][n] += static_cast<std::int32_t>(a[r][k]) * b[k][n];
    }
  }
  for (int n = 0; n < 4; ++n) {
    u32* d = w.at<u32>(i.o[n]);
    for (int l = 0; l < 32; ++l) {
      d[l] = static_cast<u32>(c[(l >> 2) + (n >> 1) * 8][(l & 3) * 2 + (n & 1)]);
    }
  }
}

}  // namespace unmask::softgpu
