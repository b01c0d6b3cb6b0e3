// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/roofs.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "kernels/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace unmask::bench {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

constexpr int chains = 20;       // independent sums, enough to hide the latency
constexpr int rounds = 200'000;  // about half a millisecond

// Each returns multiply-adds per round of all lanes; the empty asm keeps the sums alive.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) double fma_avx512() {
  __m512 sum[chains];
  const __m512 a = _mm512_set1_ps(0.999F), b = _mm512_set1_ps(1e-6F);
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = a;
    asm volatile("" : "+v"(s));  // equal chains must not be merged;
  }
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 32
    for (auto& s : sum) s = _mm512_fmadd_ps(s, a, b);
  }
#pragma GCC unroll 32
  for (auto& s : sum) asm volatile("" : : "v"(s));
  return 16.0 * chains;
}

__attribute__((target("avx512f,avx512vnni"))) double dot_avx512() {
  __m512i sum[chains];
  const __m512i a = _mm512_set1_epi8(3), b = _mm512_set1_epi8(1);
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = a;
    asm volatile("" : "+v"(s));  // equal chains must not be merged;
  }
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 32
    for (auto& s : sum) s = _mm512_dpbusd_epi32(s, a, b);
  }
#pragma GCC unroll 32
  for (auto& s : sum) asm volatile("" : : "v"(s));
  return 64.0 * chains;
}

constexpr int narrow_chains = 12;
__attribute__((target("avx2,fma"))) double fma_avx2() {
  __m256 sum[narrow_chains];
  const __m256 a = _mm256_set1_ps(0.999F), b = _mm256_set1_ps(1e-6F);
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = a;
    asm volatile("" : "+x"(s));  // equal chains must not be merged;
  }
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 32
    for (auto& s : sum) s = _mm256_fmadd_ps(s, a, b);
  }
#pragma GCC unroll 32
  for (auto& s : sum) asm volatile("" : : "x"(s));
  return 8.0 * narrow_chains;
}
#endif

double fma_portable() {
  typedef float vec __attribute__((vector_size(16)));
  constexpr int n = 8;
  vec sum[n];
  const vec a{0.999F, 0.999F, 0.999F, 0.999F}, b{1e-6F, 1e-6F, 1e-6F, 1e-6F};
#pragma GCC unroll 32
  for (auto& s : sum) {
    s = a;
    asm volatile("" : "+m"(s));  // equal chains must not be merged;
  }
  for (int i = 0; i < rounds; ++i) {
#pragma GCC unroll 32
    for (auto& s : sum) s = s * a + b;
  }
#pragma GCC unroll 32
  for (auto& s : sum) asm volatile("" : : "m"(s));
  return 4.0 * n;
}

double peak(double (*kernel)()) {
  double best = 0;
  for (int sample = 0; sample < 40; ++sample) {
    double per_round = 0;
    const auto start = clock::now();
#pragma omp parallel reduction(+ : per_round)
    per_round += kernel();
    best = std::max(best, 2 * per_round * rounds / seconds_since(start));
  }
  return best;
}

roofs measure() {
  roofs r;
  r.threads = omp_get_max_threads();
  switch (cpu::active_isa()) {
#if defined(__x86_64__)
    case cpu::isa::avx512:
      r.f32_flops = peak(fma_avx512);
      r.int8_ops = peak(dot_avx512);
      break;
    case cpu::isa::avx2:
      r.f32_flops = r.int8_ops = peak(fma_avx2);
      break;
#endif
    default:
      r.f32_flops = r.int8_ops = peak(fma_portable);
  }
  for (int sample = 0; sample < 64; ++sample) r.triad_bytes = std::max(r.triad_bytes, triad_once());
  return r;
}

}  // namespace

// One slice of the arrays per call, the next one each time: as short as the kernels that are held
// against it, and cold, since the arrays overflow every cache.
double triad_once() {
  // Three arrays of 128 MB, 4 MB a slice.
  static constexpr std::ptrdiff_t n = 32 << 20, slice = 1 << 20;
  static const auto memory = [] {
    std::unique_ptr<float[]> m(new float[3 * n]);
#pragma omp parallel for
    for (std::ptrdiff_t i = 0; i < 3 * n; ++i) m[static_cast<std::size_t>(i)] = 1.0F;
    return m;
  }();
  static std::ptrdiff_t at = 0;
  at = (at + slice) % n;
  float* a = memory.get() + at;
  const float *b = a + n, *c = b + n;
  const auto start = clock::now();
#pragma omp parallel for simd schedule(static)
  for (std::ptrdiff_t i = 0; i < slice; ++i) a[i] = b[i] + 3.0F * c[i];
  return 12.0 * slice / seconds_since(start);
}

const roofs& measured_roofs() {
  static const roofs measured = measure();
  return measured;
}

}  // namespace unmask::bench
