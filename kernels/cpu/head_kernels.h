// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the fused LM head does with a tile of logits, written once over a vector type (vec.h) and
// compiled per instruction set by compiled/head.cpp. Raw pointers only; see row_kernels.h.
#pragma once

#include <cstdint>

#include "kernels/cpu/vec.h"

namespace unmask::cpu {

// Running description of one row of logits l_v, with a_v = (l_v - best) / temperature:
// sum = sum_v e^a_v, weighted = sum_v a_v e^a_v. Both are rescaled when best grows.
struct head_state {
  double sum = 0;
  double weighted = 0;
  float best = -__builtin_inff();
  float second = -__builtin_inff();
  std::int32_t token = 0;
  // With Gumbel noise: no token whose noised logit lies below `floor` can win; `noised` is the
  // largest exact noised logit so far, of token `drawn` with logit `drawn_logit`.
  float floor = -__builtin_inff();
  double noised = -static_cast<double>(__builtin_inff());
  std::int32_t drawn = -1;
  float drawn_logit = -__builtin_inff();
};

struct head_wish {
  float inverse_temperature = 1.0F;
  bool sums = true;        // any probability is wanted
  bool entropy = false;    // `weighted` is wanted
  bool in_double = false;  // add up in float64
};

struct head_kernels {
  // Adds logits [n] of tokens first .. first + n - 1 to the state; n is a multiple of 16 (padded
  // with -infinity).
  void (*scan)(const float* logit, std::int64_t n, std::int32_t first, const head_wish& wish,
               head_state& state);
  // Approximate Gumbel-noised logits, logit - t ln(-ln u): raises state.floor and writes the
  // indices into the tile of all that may still win to `hit` [n]; returns their number.
  std::int64_t (*gumbel)(const float* logit, std::int64_t n, std::int32_t first, std::uint64_t key,
                         float t, float* work, head_state& state, std::int32_t* hit);
};
template <class V>
const head_kernels& head_kernels_of();

#if defined(UNMASK_VEC_AVX512) || defined(UNMASK_VEC_AVX2) || defined(UNMASK_VEC_PORTABLE)

// Integer and double lanes as wide as V::f.
template <class V>
struct lanes_of;
#define UNMASK_LANES(V, BYTES)                                     \
  template <>                                                      \
  struct lanes_of<V> {                                             \
    typedef std::int32_t i32 __attribute__((vector_size(BYTES)));  \
    typedef std::uint64_t u64 __attribute__((vector_size(BYTES))); \
    typedef double f64 __attribute__((vector_size(BYTES)));        \
    typedef float half __attribute__((vector_size(BYTES / 2)));    \
  }
#if defined(UNMASK_VEC_AVX512)
UNMASK_LANES(vec_avx512, 64);
#elif defined(UNMASK_VEC_AVX2)
UNMASK_LANES(vec_avx2, 32);
#else
UNMASK_LANES(vec_portable, 16);
#endif
#undef UNMASK_LANES

template <class V>
struct head_code {
  using f = typename V::f;
  using lanes = lanes_of<V>;
  using u64 = typename lanes::u64;
  using f64 = typename lanes::f64;
  static constexpr std::int64_t w = V::width;
  static constexpr std::int64_t pairs = V::width / 2;  // 64-bit lanes

  static UNMASK_INLINE double sum_lanes(f x) {
    float l[V::width];
    V::store(l, x);
    double sum = 0;
    for (int i = 0; i < V::width; ++i) sum += static_cast<double>(l[i]);
    return sum;
  }

  // e^(scale (best' - best)), the factor old sums shrink by when the maximum grows.
  static UNMASK_INLINE void rescale(head_state& s, float best, float inverse_temperature) {
    if (s.best == -__builtin_inff()) return;  // nothing summed yet (or NaN, which stays)
    const double d = (static_cast<double>(s.best) - static_cast<double>(best)) *
                     static_cast<double>(inverse_temperature);
    const double factor = __builtin_exp(d);
    s.weighted = (s.weighted + d * s.sum) * factor;
    s.sum *= factor;
  }

  template <bool ENTROPY, bool IN_DOUBLE>
  static UNMASK_INLINE void add_up(const float* logit, std::int64_t n, float best, float scale,
                                   head_state& s) {
    const f top = V::set(best), inverse = V::set(scale), lowest = V::set(-88.0F);
    f sum = V::zero(), weighted = V::zero();
    double wide[V::width] = {}, wide_weighted[V::width] = {};
    for (std::int64_t i = 0; i < n; i += w) {
      const f a = V::mul(V::sub(V::load(logit + i), top), inverse);
      const f e = exp_nonpositive<V>(a);
      const f ae = ENTROPY ? V::mul(V::max(lowest, a), e) : V::zero();
      if (IN_DOUBLE) {
        float l[V::width], m[V::width];
        V::store(l, e);
        V::store(m, ae);
        for (int j = 0; j < V::width; ++j) wide[j] += static_cast<double>(l[j]);
        if (ENTROPY) {
          for (int j = 0; j < V::width; ++j) wide_weighted[j] += static_cast<double>(m[j]);
        }
      } else {
        sum = V::add(sum, e);
        if (ENTROPY) weighted = V::add(weighted, ae);
      }
    }
    if (IN_DOUBLE) {
      for (int j = 0; j < V::width; ++j) s.sum += wide[j];
      for (int j = 0; j < V::width; ++j) s.weighted += wide_weighted[j];
    } else {
      s.sum += sum_lanes(sum);
      s.weighted += sum_lanes(weighted);
    }
  }

  static void scan(const float* logit, std::int64_t n, std::int32_t first, const head_wish& wish,
                   head_state& s) {
    // Largest and second largest of the tile; a NaN compares false and loses.
    f best = V::set(-__builtin_inff()), second = best;
    for (std::int64_t i = 0; i < n; i += w) {
      const f x = V::load(logit + i);
      const auto greater = V::less(best, x);
      second = V::select(greater, best, V::max(x, second));
      best = V::select(greater, x, best);
    }
    float lane[2 * V::width];
    V::store(lane, best);
    V::store(lane + V::width, second);
    float largest = -__builtin_inff(), next = largest;
    for (int j = 0; j < 2 * V::width; ++j) {
      if (lane[j] > largest) {
        next = largest;
        largest = lane[j];
      } else if (lane[j] > next) {
        next = lane[j];
      }
    }
    if (largest > s.best) {
      std::int64_t at = 0;
      while (logit[at] != largest) ++at;
      s.token = first + static_cast<std::int32_t>(at);
      rescale(s, largest, wish.inverse_temperature);
      s.second = next > s.best ? next : s.best;
      s.best = largest;
    } else if (largest > s.second) {
      s.second = largest;
    }
    if (!wish.sums) return;
    const float reference = s.best > -__builtin_inff() ? s.best : 0.0F;
    const float scale = wish.inverse_temperature;
    if (wish.in_double) {
      if (wish.entropy) {
        add_up<true, true>(logit, n, reference, scale, s);
      } else {
        add_up<false, true>(logit, n, reference, scale, s);
      }
    } else if (wish.entropy) {
      add_up<true, false>(logit, n, reference, scale, s);
    } else {
      add_up<false, false>(logit, n, reference, scale, s);
    }
  }

  // ---- Gumbel noise ----

  // Low 32 bits of each 64-bit lane times m.
  static UNMASK_INLINE u64 multiply(u64 a, std::uint32_t m) {
#if defined(UNMASK_VEC_AVX512)
    return (u64)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(m));
#elif defined(UNMASK_VEC_AVX2)
    return (u64)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(m));
#else
    return (a & 0xFFFFFFFFULL) * static_cast<std::uint64_t>(m);
#endif
  }

  // u = uniform_open(key, index) and 1 - u of `pairs` consecutive indices (random.h), as floats.
  // The upper half of a lane is garbage until the end.
  static UNMASK_INLINE void uniform(std::uint64_t key, std::uint64_t index, float* u,
                                    float* one_minus_u) {
    u64 c0, c1, c2, c3;
    for (std::int64_t i = 0; i < pairs; ++i) {
      const std::uint64_t counter = index + static_cast<std::uint64_t>(i);
      c0[i] = counter;
      c1[i] = counter >> 32;
    }
    c2 = u64{};
    c3 = u64{};
    std::uint32_t k0 = static_cast<std::uint32_t>(key);
    std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
    UNMASK_UNROLL for (int round = 0; round < 10; ++round) {
      const u64 p0 = multiply(c0, 0xD2511F53U);
      const u64 p1 = multiply(c2, 0xCD9E8D57U);
      c0 = (p1 >> 32) ^ c1 ^ static_cast<std::uint64_t>(k0);
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ static_cast<std::uint64_t>(k1);
      c3 = p0;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    const u64 bits = (c0 << 32) | (c1 & 0xFFFFFFFFULL);
    // 1 + b 2^-52 by writing the fraction of a double; u = (b + 1/2) 2^-52, both exact.
    const f64 shifted = (f64)((bits >> 12) | 0x3FF0000000000000ULL);
    const auto uf = __builtin_convertvector(shifted - (1.0 - 0x1.0p-53), typename lanes::half);
    const auto wf = __builtin_convertvector((2.0 - 0x1.0p-53) - shifted, typename lanes::half);
    __builtin_memcpy(u, &uf, sizeof uf);
    __builtin_memcpy(one_minus_u, &wf, sizeof wf);
  }

  // 2 atanh(s) = ln((1 + s) / (1 - s)) for |s| <= 1/3, error below 2e-7 relative.
  static UNMASK_INLINE f two_atanh(f s) {
    const f q = V::mul(s, s);
    f p = V::set(2.0F / 11);
    p = V::fma(p, q, V::set(2.0F / 9));
    p = V::fma(p, q, V::set(2.0F / 7));
    p = V::fma(p, q, V::set(2.0F / 5));
    p = V::fma(p, q, V::set(2.0F / 3));
    p = V::fma(p, q, V::set(2.0F));
    return V::mul(p, s);
  }
  // ln x for normal positive x: x = 2^n m with m in [2/3, 4/3).
  static UNMASK_INLINE f log_of(f x) {
    using i32 = typename lanes::i32;
    const i32 bits = (i32)x - 0x3F2AAAAB;
    const i32 n = bits >> 23;
    const f m = (f)((bits & 0x007FFFFF) + 0x3F2AAAAB);
    const f s = V::sub(m, V::set(1.0F)) / V::add(m, V::set(1.0F));
    return V::fma(__builtin_convertvector(n, f), V::set(0.6931471806F), two_atanh(s));
  }
  static std::int64_t gumbel(const float* logit, std::int64_t n, std::int32_t first,
                             std::uint64_t key, float t, float* work, head_state& s,
                             std::int32_t* hit) {
    // |approximate - exact| <= t (5e-6 in ln(-ln u) + 37 2^-22) + |logit| 2^-22, with room.
    const f per_t = V::set(t * 4e-5F), per_logit = V::set(1e-6F), temperature = V::set(t);
    f floor = V::set(s.floor);
    for (std::int64_t i = 0; i < n; i += w) {
      float u[V::width], v[V::width];
      for (std::int64_t j = 0; j < w; j += pairs) {
        uniform(key, static_cast<std::uint64_t>(first) + static_cast<std::uint64_t>(i + j), u + j,
                v + j);
      }
      const f x = V::load(u), y = V::load(v), z = V::load(logit + i);
      // -ln u: from u below one half, from 1 - u above, so that no digits are lost near 1.
      const f near_one = two_atanh(y / V::sub(V::set(2.0F), y));
      const f far = V::sub(V::zero(), log_of(x));
      const f e = V::select(V::less(x, V::set(0.5F)), far, near_one);
      const f noised = V::sub(z, V::mul(temperature, log_of(e)));
      V::store(work + i, noised);
      floor = V::max(V::sub(noised, V::fma(V::abs(z), per_logit, per_t)), floor);
    }
    float lane[V::width];
    V::store(lane, floor);
    for (int j = 0; j < V::width; ++j) s.floor = lane[j] > s.floor ? lane[j] : s.floor;
    std::int64_t hits = 0;
    const f bar = V::set(s.floor);
    for (std::int64_t i = 0; i < n; i += w) {
      const f z = V::load(logit + i);
      const f reach = V::add(V::load(work + i), V::fma(V::abs(z), per_logit, per_t));
      float yes[V::width];
      V::store(yes, V::select(V::less(reach, bar), V::zero(), V::set(1.0F)));
      float any = 0;
      for (int j = 0; j < V::width; ++j) any += yes[j];
      if (any == 0.0F) continue;
      for (int j = 0; j < V::width; ++j) {
        if (yes[j] != 0.0F && logit[i + j] > -__builtin_inff()) {
          hit[hits++] = static_cast<std::int32_t>(i + j);
        }
      }
    }
    return hits;
  }
};

template <class V>
const head_kernels& head_kernels_of() {
  static constexpr head_kernels kernels = {head_code<V>::scan, head_code<V>::gumbel};
  return kernels;
}

#endif

}  // namespace unmask::cpu
