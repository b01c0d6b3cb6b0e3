// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A vector of floats for each instruction set, so that a kernel is written once. Each source of
// compiled/ is compiled three times, with one of UNMASK_VEC_AVX512, UNMASK_VEC_AVX2 and
// UNMASK_VEC_PORTABLE, and instantiates its kernels for `vec`, the type of that set; the three types
// have different names, so templates over them never clash at link time.
//
// f: `width` floats; i: `width` int32; m: a lane mask. The register tiles of gemm_kernel.h (rows by
// vectors) and attention_kernel.h (rows) are what the registers of the set hold. dot4 adds to each int32 lane the dot product
// of four bytes of weights (signed) with four bytes of activations, as bias_activation says:
// true when activations are stored as unsigned bytes value + 128.
#pragma once

#include <cstdint>
#include <limits>

#if defined(UNMASK_VEC_AVX512) || defined(UNMASK_VEC_AVX2)
#include <immintrin.h>
#endif

#define UNMASK_INLINE inline __attribute__((always_inline))
#define UNMASK_UNROLL _Pragma("GCC unroll 16")

namespace unmask::cpu {

#if defined(UNMASK_VEC_AVX512)
struct vec_avx512 {
  using f = __m512;
  using i = __m512i;
  using m = __mmask16;
  static constexpr int width = 16;
  static constexpr bool bias_activation = true;
  static constexpr int gemm_rows = 8, gemm_vectors = 3, attention_rows = 8;

  static UNMASK_INLINE f zero() { return _mm512_setzero_ps(); }
  static UNMASK_INLINE f set(float x) { return _mm512_set1_ps(x); }
  static UNMASK_INLINE f load(const float* p) { return _mm512_loadu_ps(p); }
  static UNMASK_INLINE void store(float* p, f x) { _mm512_storeu_ps(p, x); }
  static UNMASK_INLINE f add(f a, f b) { return _mm512_add_ps(a, b); }
  static UNMASK_INLINE f sub(f a, f b) { return _mm512_sub_ps(a, b); }
  static UNMASK_INLINE f mul(f a, f b) { return _mm512_mul_ps(a, b); }
  static UNMASK_INLINE f fma(f a, f b, f c) { return _mm512_fmadd_ps(a, b, c); }
  // b when a is NaN is the hardware's rule: max(a, b) = a > b ? a : b.
  static UNMASK_INLINE f max(f a, f b) { return _mm512_max_ps(a, b); }
  static UNMASK_INLINE f abs(f a) { return _mm512_abs_ps(a); }
  static UNMASK_INLINE f round(f a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static UNMASK_INLINE m less(f a, f b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static UNMASK_INLINE m less(i a, i b) { return _mm512_cmplt_epi32_mask(a, b); }
  static UNMASK_INLINE f select(m k, f yes, f no) { return _mm512_mask_blend_ps(k, no, yes); }

  static UNMASK_INLINE i zero_i() { return _mm512_setzero_si512(); }
  static UNMASK_INLINE i set_i(std::int32_t x) { return _mm512_set1_epi32(x); }
  static UNMASK_INLINE i load_i(const void* p) { return _mm512_loadu_si512(p); }
  static UNMASK_INLINE void store_i(void* p, i x) { _mm512_storeu_si512(p, x); }
  static UNMASK_INLINE i add(i a, i b) { return _mm512_add_epi32(a, b); }
  static UNMASK_INLINE i to_int(f a) { return _mm512_cvtps_epi32(a); }
  static UNMASK_INLINE f to_float(i a) { return _mm512_cvtepi32_ps(a); }
  static UNMASK_INLINE f low_bf16(i w) { return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)); }
  static UNMASK_INLINE f high_bf16(i w) {
    return _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32(-65536)));
  }
  static UNMASK_INLINE f scale_by_power(f x, f n) { return _mm512_scalef_ps(x, n); }
  static UNMASK_INLINE i dot4(i acc, i activation, i weight) {
    // GCC 12 has no spill-free form of the plain intrinsic in an array; see the unroll pragmas.
    return _mm512_dpbusd_epi32(acc, activation, weight);
  }
};
using vec = vec_avx512;
#endif

#if defined(UNMASK_VEC_AVX2)
struct vec_avx2 {
  using f = __m256;
  using i = __m256i;
  using m = __m256;
  static constexpr int width = 8;
  static constexpr bool bias_activation = false;
  static constexpr int gemm_rows = 4, gemm_vectors = 3, attention_rows = 4;

  static UNMASK_INLINE f zero() { return _mm256_setzero_ps(); }
  static UNMASK_INLINE f set(float x) { return _mm256_set1_ps(x); }
  static UNMASK_INLINE f load(const float* p) { return _mm256_loadu_ps(p); }
  static UNMASK_INLINE void store(float* p, f x) { _mm256_storeu_ps(p, x); }
  static UNMASK_INLINE f add(f a, f b) { return _mm256_add_ps(a, b); }
  static UNMASK_INLINE f sub(f a, f b) { return _mm256_sub_ps(a, b); }
  static UNMASK_INLINE f mul(f a, f b) { return _mm256_mul_ps(a, b); }
  static UNMASK_INLINE f fma(f a, f b, f c) { return _mm256_fmadd_ps(a, b, c); }
  static UNMASK_INLINE f max(f a, f b) { return _mm256_max_ps(a, b); }
  static UNMASK_INLINE f abs(f a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  static UNMASK_INLINE f round(f a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static UNMASK_INLINE m less(f a, f b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static UNMASK_INLINE m less(i a, i b) { return _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a)); }
  static UNMASK_INLINE f select(m k, f yes, f no) { return _mm256_blendv_ps(no, yes, k); }

  static UNMASK_INLINE i zero_i() { return _mm256_setzero_si256(); }
  static UNMASK_INLINE i set_i(std::int32_t x) { return _mm256_set1_epi32(x); }
  static UNMASK_INLINE i load_i(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  static UNMASK_INLINE void store_i(void* p, i x) {
    _mm256_storeu_si256(static_cast<__m256i*>(p), x);
  }
  static UNMASK_INLINE i add(i a, i b) { return _mm256_add_epi32(a, b); }
  static UNMASK_INLINE i to_int(f a) { return _mm256_cvtps_epi32(a); }
  static UNMASK_INLINE f to_float(i a) { return _mm256_cvtepi32_ps(a); }
  static UNMASK_INLINE f low_bf16(i w) { return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16)); }
  static UNMASK_INLINE f high_bf16(i w) {
    return _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32(-65536)));
  }
  // x 2^n for whole n >= -126.
  static UNMASK_INLINE f scale_by_power(f x, f n) {
    const i e =
        _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(x, _mm256_castsi256_ps(e));
  }
  // |a| (w sign a): both within +-127, so a pair of products fits 16 bits and never saturates.
  static UNMASK_INLINE i dot4(i acc, i activation, i weight) {
    const i pairs =
        _mm256_maddubs_epi16(_mm256_abs_epi8(activation), _mm256_sign_epi8(weight, activation));
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};
using vec = vec_avx2;
#endif

#if defined(UNMASK_VEC_PORTABLE)
// The compiler's generic vectors: whatever the target has (SSE2 on x86-64, NEON on AArch64).
struct vec_portable {
  typedef float f __attribute__((vector_size(16)));
  typedef std::int32_t i __attribute__((vector_size(16)));
  using m = i;
  static constexpr int width = 4;
  static constexpr bool bias_activation = false;
  static constexpr int gemm_rows = 2, gemm_vectors = 4, attention_rows = 4;

  static UNMASK_INLINE f zero() { return f{0, 0, 0, 0}; }
  static UNMASK_INLINE f set(float x) { return f{x, x, x, x}; }
  static UNMASK_INLINE f load(const float* p) {
    f x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  static UNMASK_INLINE void store(float* p, f x) { __builtin_memcpy(p, &x, sizeof x); }
  static UNMASK_INLINE f add(f a, f b) { return a + b; }
  static UNMASK_INLINE f sub(f a, f b) { return a - b; }
  static UNMASK_INLINE f mul(f a, f b) { return a * b; }
  static UNMASK_INLINE f fma(f a, f b, f c) {
    const f product = a * b;  // two roundings: this set has no fused multiply-add
    return product + c;
  }
  static UNMASK_INLINE f max(f a, f b) { return select(less(b, a), a, b); }
  static UNMASK_INLINE f abs(f a) { return (f)((i)a & set_i(0x7fffffff)); }
  // Nearest even for |a| < 2^22, by adding and taking away 1.5 2^23.
  static UNMASK_INLINE f round(f a) {
    const f shifted = a + set(12582912.0F);
    return shifted - set(12582912.0F);
  }
  static UNMASK_INLINE m less(f a, f b) { return a < b; }
  static UNMASK_INLINE m less(i a, i b) { return a < b; }
  static UNMASK_INLINE f select(m k, f yes, f no) { return (f)(((i)yes & k) | ((i)no & ~k)); }

  static UNMASK_INLINE i zero_i() { return i{0, 0, 0, 0}; }
  static UNMASK_INLINE i set_i(std::int32_t x) { return i{x, x, x, x}; }
  static UNMASK_INLINE i load_i(const void* p) {
    i x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
  static UNMASK_INLINE void store_i(void* p, i x) { __builtin_memcpy(p, &x, sizeof x); }
  static UNMASK_INLINE i add(i a, i b) { return a + b; }
  static UNMASK_INLINE i to_int(f a) { return __builtin_convertvector(round(a), i); }
  static UNMASK_INLINE f to_float(i a) { return __builtin_convertvector(a, f); }
  static UNMASK_INLINE f low_bf16(i w) { return (f)(w << 16); }
  static UNMASK_INLINE f high_bf16(i w) { return (f)(w & set_i(-65536)); }
  static UNMASK_INLINE f scale_by_power(f x, f n) {
    return x * (f)((__builtin_convertvector(n, i) + 127) << 23);
  }
  static UNMASK_INLINE i dot4(i acc, i a, i w) {
    acc += ((a << 24) >> 24) * ((w << 24) >> 24);
    acc += ((a << 16) >> 24) * ((w << 16) >> 24);
    acc += ((a << 8) >> 24) * ((w << 8) >> 24);
    return acc + (a >> 24) * (w >> 24);
  }
};
using vec = vec_portable;
#endif

// e^x for x <= 0, relative error below 2e-7; exactly 0 below -87.3 (and for -infinity). NaN stays
// NaN. e^x = 2^n e^r, |r| <= ln2 / 2, with the degree-6 minimax polynomial of Cephes' expf.
template <class V>
UNMASK_INLINE typename V::f exp_nonpositive(typename V::f x) {
  using f = typename V::f;
  const f lowest = V::set(-87.33F);
  const auto tiny = V::less(x, lowest);
  const f y = V::max(lowest, x);  // second operand wins on NaN
  const f n = V::round(V::mul(y, V::set(1.44269504088896341F)));
  f r = V::fma(n, V::set(-0.693359375F), y);
  r = V::fma(n, V::set(2.12194440e-4F), r);
  f p = V::set(1.9875691500e-4F);
  p = V::fma(p, r, V::set(1.3981999507e-3F));
  p = V::fma(p, r, V::set(8.3334519073e-3F));
  p = V::fma(p, r, V::set(4.1665795894e-2F));
  p = V::fma(p, r, V::set(1.6666665459e-1F));
  p = V::fma(p, r, V::set(5.0000001201e-1F));
  p = V::fma(p, V::mul(r, r), V::add(r, V::set(1.0F)));
  return V::select(tiny, V::zero(), V::scale_by_power(p, n));
}

}  // namespace unmask::cpu
