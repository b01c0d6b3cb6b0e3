// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Kernels that walk along rows, written once over a vector type (vec.h) and compiled per
// instruction set by compiled/row.cpp. They see raw pointers only: inline functions of shared
// headers, compiled here with wider instructions, must not end up in the rest of the program.
//
// A sum over a row is one accumulator per lane and a fixed tree over the lanes at the end, so it
// depends on the row alone. The last, partial vector is padded with zeros.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec.h"

// A lambda that is always inlined, so that loads and stores stay in registers.
#define UNMASK_LAMBDA __attribute__((always_inline))

namespace unmask::cpu {

struct row_kernels {
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t n, float* out);
  // One row of heads, in place; cosine and sine [half]; norm [dim] or null.
  void (*head_norm_rope)(float* x, std::int64_t heads, std::int64_t dim, const float* norm,
                         float eps, std::int64_t half, const float* cosine, const float* sine);
  void (*silu_mul)(const float* gate, const float* up, std::int64_t n, float* out);
  void (*sigmoid)(float* x, std::int64_t n);
  void (*gelu_tanh)(const float* x, std::int64_t n, float* out);
  float (*dot)(const float* a, const float* b, std::int64_t n);
  // out[i * out_stride + j] = a_i . b_j for na rows of a and nb rows of b.
  void (*dots)(const float* a, std::int64_t a_stride, std::int64_t na, const float* b,
               std::int64_t b_stride, std::int64_t nb, std::int64_t n, float* out,
               std::int64_t out_stride);
  // out[0..2] = a . b, a . a, b . b, in float64.
  void (*products)(const float* a, const float* b, std::int64_t n, double* out);
  void (*add_to)(double* sum, const float* x, std::int64_t n);            // sum += x
  void (*add_scaled)(float* y, const float* x, float a, std::int64_t n);  // y += a x
  // sum += softmax(max-pool 3 of score * scale); score [n] is overwritten.
  void (*pooled_softmax)(float* score, float scale, std::int64_t n, float* work, double* sum);
};
template <class V>
const row_kernels& row_kernels_of();

#if defined(UNMASK_VEC_AVX512) || defined(UNMASK_VEC_AVX2) || defined(UNMASK_VEC_PORTABLE)

template <class V>
struct row_code {
  using f = typename V::f;
  static constexpr std::int64_t w = V::width;

  static UNMASK_INLINE f load_part(const float* p, std::int64_t n) {
    float lanes[V::width] = {};
    for (std::int64_t i = 0; i < n; ++i) lanes[i] = p[i];
    return V::load(lanes);
  }
  static UNMASK_INLINE void store_part(float* p, f x, std::int64_t n) {
    float lanes[V::width];
    V::store(lanes, x);
    for (std::int64_t i = 0; i < n; ++i) p[i] = lanes[i];
  }
  static UNMASK_INLINE float sum_lanes(f x) {
    float lanes[V::width];
    V::store(lanes, x);
    for (int step = V::width / 2; step > 0; step /= 2) {
      for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    }
    return lanes[0];
  }
  static UNMASK_INLINE float largest_lane(f x) {
    float lanes[V::width];
    V::store(lanes, x);
    float largest = lanes[0];
    for (int i = 1; i < V::width; ++i) largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
  }
  // body(load, store) for each vector of [0, n), the last one partial.
  template <class Body>
  static UNMASK_INLINE void each(std::int64_t n, Body body) {
    std::int64_t i = 0;
    for (; i + w <= n; i += w) {
      body([i](const float* p) UNMASK_LAMBDA { return V::load(p + i); },
           [i](float* p, f x) UNMASK_LAMBDA { V::store(p + i, x); });
    }
    if (i < n) {
      body([i, n](const float* p) UNMASK_LAMBDA { return load_part(p + i, n - i); },
           [i, n](float* p, f x) UNMASK_LAMBDA { store_part(p + i, x, n - i); });
    }
  }

  static float dot(const float* a, const float* b, std::int64_t n) {
    f sum = V::zero();
    each(n, [&](auto load, auto) UNMASK_LAMBDA { sum = V::fma(load(a), load(b), sum); });
    return sum_lanes(sum);
  }

  static void rms_norm(const float* x, const float* weight, float eps, std::int64_t n, float* out) {
    const float mean = dot(x, x, n) / static_cast<float>(n);
    const f factor = V::set(1.0F / __builtin_sqrtf(mean + eps));
    each(n, [&](auto load, auto store)
                UNMASK_LAMBDA { store(out, V::mul(V::mul(load(x), factor), load(weight))); });
  }

  static void head_norm_rope(float* x, std::int64_t heads, std::int64_t dim, const float* norm,
                             float eps, std::int64_t half, const float* cosine, const float* sine) {
    for (std::int64_t h = 0; h < heads; ++h, x += dim) {
      if (norm != nullptr) rms_norm(x, norm, eps, dim, x);
      float* low = x;
      float* high = x + half;
      each(half, [&](auto load, auto store) UNMASK_LAMBDA {
        const f a = load(low), b = load(high), c = load(cosine), s = load(sine);
        store(low, V::sub(V::mul(a, c), V::mul(b, s)));
        store(high, V::fma(b, c, V::mul(a, s)));
      });
    }
  }

  // 1 / (1 + e^-x), from e^-|x| so that nothing overflows.
  static UNMASK_INLINE f sigmoid_of(f x) {
    const f e = exp_nonpositive<V>(V::sub(V::zero(), V::abs(x)));
    const f numerator = V::select(V::less(x, V::zero()), e, V::set(1.0F));
    return numerator / V::add(V::set(1.0F), e);
  }
  static void sigmoid(float* x, std::int64_t n) {
    each(n, [&](auto load, auto store) UNMASK_LAMBDA { store(x, sigmoid_of(load(x))); });
  }
  // (1 + tanh(u)) / 2 is the sigmoid of 2 u.
  static void gelu_tanh(const float* x, std::int64_t n, float* out) {
    const f slope = V::set(1.5957691216F), cubic = V::set(0.044715F);  // 2 sqrt(2 / pi)
    each(n, [&](auto load, auto store) UNMASK_LAMBDA {
      const f v = load(x);
      const f u = V::fma(V::mul(V::mul(v, v), v), cubic, v);
      store(out, V::mul(v, sigmoid_of(V::mul(slope, u))));
    });
  }
  static void silu_mul(const float* gate, const float* up, std::int64_t n, float* out) {
    each(n, [&](auto load, auto store) UNMASK_LAMBDA {
      const f g = load(gate);
      store(out, V::mul(V::mul(g, sigmoid_of(g)), load(up)));
    });
  }

  // One accumulator per pair whatever the tile, so a pair's bits do not depend on its tile.
  template <int NA, int NB>
  static UNMASK_INLINE void dots_tile(const float* a, std::int64_t a_stride, const float* b,
                                      std::int64_t b_stride, std::int64_t n, float* out,
                                      std::int64_t out_stride) {
    f sum[NA][NB];
    UNMASK_UNROLL for (int i = 0; i < NA; ++i) {
      UNMASK_UNROLL for (int j = 0; j < NB; ++j) sum[i][j] = V::zero();
    }
    each(n, [&](auto load, auto) UNMASK_LAMBDA {
      f right[NB];
      UNMASK_UNROLL for (int j = 0; j < NB; ++j) right[j] = load(b + j * b_stride);
      UNMASK_UNROLL for (int i = 0; i < NA; ++i) {
        const f left = load(a + i * a_stride);
        UNMASK_UNROLL for (int j = 0; j < NB; ++j) {
          sum[i][j] = V::fma(left, right[j], sum[i][j]);
        }
      }
    });
    for (int i = 0; i < NA; ++i) {
      for (int j = 0; j < NB; ++j) out[i * out_stride + j] = sum_lanes(sum[i][j]);
    }
  }
  static void dots(const float* a, std::int64_t a_stride, std::int64_t na, const float* b,
                   std::int64_t b_stride, std::int64_t nb, std::int64_t n, float* out,
                   std::int64_t out_stride) {
    std::int64_t j = 0;
    for (; j + 4 <= nb; j += 4) {
      std::int64_t i = 0;
      for (; i + 4 <= na; i += 4) {
        dots_tile<4, 4>(a + i * a_stride, a_stride, b + j * b_stride, b_stride, n,
                        out + i * out_stride + j, out_stride);
      }
      for (; i < na; ++i) {
        dots_tile<1, 4>(a + i * a_stride, a_stride, b + j * b_stride, b_stride, n,
                        out + i * out_stride + j, out_stride);
      }
    }
    for (; j < nb; ++j) {
      for (std::int64_t i = 0; i < na; ++i) {
        out[i * out_stride + j] = dot(a + i * a_stride, b + j * b_stride, n);
      }
    }
  }

  static void products(const float* a, const float* b, std::int64_t n, double* out) {
    constexpr std::int64_t lanes = 8;  // the compiler makes vectors of doubles of them
    double ab[lanes] = {}, aa[lanes] = {}, bb[lanes] = {};
    const auto add = [&](std::int64_t i, std::int64_t lane) UNMASK_LAMBDA {
      const double x = static_cast<double>(a[i + lane]), y = static_cast<double>(b[i + lane]);
      ab[lane] += x * y;
      aa[lane] += x * x;
      bb[lane] += y * y;
    };
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      for (std::int64_t lane = 0; lane < lanes; ++lane) add(i, lane);
    }
    for (std::int64_t lane = 0; i + lane < n; ++lane) add(i, lane);
    out[0] = out[1] = out[2] = 0;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      out[0] += ab[lane];
      out[1] += aa[lane];
      out[2] += bb[lane];
    }
  }

  static void add_to(double* sum, const float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += static_cast<double>(x[i]);
  }
  static void add_scaled(float* y, const float* x, float a, std::int64_t n) {
    each(n, [&](auto load, auto store)
                UNMASK_LAMBDA { store(y, V::fma(V::set(a), load(x), load(y))); });
  }

  static void pooled_softmax(float* score, float scale, std::int64_t n, float* work, double* sum) {
    constexpr float lowest = -__builtin_inff();
    // work[1 .. n] = score * scale between two -infinities; padded to a whole vector.
    const std::int64_t padded = (n + w - 1) / w * w;
    work[0] = lowest;
    for (std::int64_t j = 0; j < n; ++j) work[j + 1] = score[j] * scale;
    for (std::int64_t j = n + 1; j < padded + 2; ++j) work[j] = lowest;
    f largest = V::set(lowest);
    for (std::int64_t j = 0; j < padded; j += w) {
      largest = V::max(V::load(work + j + 1), largest);
    }
    const f top = V::set(largest_lane(largest));
    f total = V::zero();
    for (std::int64_t j = 0; j < padded; j += w) {
      const f pooled =
          V::max(V::max(V::load(work + j), V::load(work + j + 1)), V::load(work + j + 2));
      f e = exp_nonpositive<V>(V::sub(pooled, top));
      if (j + w > n) {  // lanes past the end pooled a real neighbour
        float lanes[V::width];
        V::store(lanes, e);
        for (std::int64_t l = n - j; l < w; ++l) lanes[l] = 0.0F;
        e = V::load(lanes);
      }
      store_part(score + j, e, n - j < w ? n - j : w);
      total = V::add(total, e);
    }
    const float inverse = 1.0F / sum_lanes(total);
    for (std::int64_t j = 0; j < n; ++j) sum[j] += static_cast<double>(score[j] * inverse);
  }
};

template <class V>
const row_kernels& row_kernels_of() {
  using code = row_code<V>;
  static constexpr row_kernels kernels = {code::rms_norm,   code::head_norm_rope, code::silu_mul,
                                          code::sigmoid,    code::gelu_tanh,      code::dot,
                                          code::dots,       code::products,       code::add_to,
                                          code::add_scaled, code::pooled_softmax};
  return kernels;
}

#endif

}  // namespace unmask::cpu
