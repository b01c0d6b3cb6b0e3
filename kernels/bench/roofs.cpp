// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/bench/roofs.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <memory>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace unmask::bench {

namespace {

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

constexpr int rounds = 200'000;  // about half a millisecond

// A kernel is `count` independent sums that begin with a and take `step` in every round; it returns
// the multiply-adds of all lanes per round. The empty asm keeps equal chains apart and the sums
// alive. It is a macro because code for another target is not inlined into a function.
#define UNMASK_ROOF_KERNEL(vec, count, lanes, place, one, other, step)        \
  vec sum[count];                                                             \
  const vec a = one, b = other;                                               \
  _Pragma("GCC unroll 32") for (auto& s : sum) {                              \
    s = a;                                                                    \
    asm volatile("" : "+" place(s));                                          \
  }                                                                           \
  for (int i = 0; i < rounds; ++i) {                                          \
    _Pragma("GCC unroll 32") for (auto& s : sum) s = step;                    \
  }                                                                           \
  _Pragma("GCC unroll 32") for (auto& s : sum) asm volatile("" : : place(s)); \
  return lanes * count

#if defined(__x86_64__)
__attribute__((target("avx512f"))) double fma_avx512() {
  UNMASK_ROOF_KERNEL(__m512, 20, 16.0, "v", _mm512_set1_ps(0.999F), _mm512_set1_ps(1e-6F),
                     _mm512_fmadd_ps(s, a, b));
}
__attribute__((target("avx512f,avx512vnni"))) double dot_avx512() {
  UNMASK_ROOF_KERNEL(__m512i, 20, 64.0, "v", _mm512_set1_epi8(3), _mm512_set1_epi8(1),
                     _mm512_dpbusd_epi32(s, a, b));
}
__attribute__((target("avx2,fma"))) double fma_avx2() {
  UNMASK_ROOF_KERNEL(__m256, 12, 8.0, "x", _mm256_set1_ps(0.999F), _mm256_set1_ps(1e-6F),
                     _mm256_fmadd_ps(s, a, b));
}
#endif

double fma_portable() {
  typedef float vec __attribute__((vector_size(16)));
  UNMASK_ROOF_KERNEL(vec, 8, 4.0, "m", (vec{0.999F, 0.999F, 0.999F, 0.999F}),
                     (vec{1e-6F, 1e-6F, 1e-6F, 1e-6F}), s * a + b);
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

roofs measure(cpu::isa set) {
  roofs r;
  r.threads = omp_get_max_threads();
  const std::clock_t own = std::clock();  // processor time of all threads
  const auto start = clock::now();
  switch (set) {
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
  r.own_share =
      static_cast<double>(std::clock() - own) / CLOCKS_PER_SEC / (seconds_since(start) * r.threads);
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

const roofs& measured_roofs(cpu::isa set) {
  static std::map<cpu::isa, roofs> measured;
  if (!measured.contains(set)) measured[set] = measure(set);
  return measured[set];
}

}  // namespace unmask::bench
