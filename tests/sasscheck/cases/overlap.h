// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// What the kernels beside this file have in common: a warpgroup's products, a softmax of 64 keys, weights.
#pragma once
#include <cstdint>
#define DEVICE __device__ __forceinline__
DEVICE void hold(float& f) {
  asm volatile("" : "+f"(f)::"memory");
}
DEVICE void hold(uint32_t& f) {
  asm volatile("" : "+r"(f)::"memory");
}
template <class T, int n>
DEVICE void hold(T (&a)[n]) {
#pragma unroll
  for (int i = 0; i < n; ++i) hold(a[i]);
}
DEVICE void arrive() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}
DEVICE void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
template <int n>
DEVICE void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(n) : "memory");
}
#define S8(i)                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
DEVICE void ss64(float (&d)[32], uint64_t a, uint64_t b, int add) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%"
      "25,%26,%27,%28,%29,%30,%31}, %32, %33, p, 1, 1, 0, 0;\n}\n"
      : S8(0), S8(8), S8(16), S8(24)
      : "l"(a), "l"(b), "r"(add));
}
DEVICE void rs128(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%"
      "25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%"
      "48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, p, "
      "1, 1, 1;\n}\n"
      : S8(0), S8(8), S8(16), S8(24), S8(32), S8(40), S8(48), S8(56)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
DEVICE uint32_t pack(float x, float y) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x));
  return r;
}
DEVICE float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE void softmax(float (&s)[32], float& m, float& l, float& g, float c) {
  float t = m;
#pragma unroll
  for (int i = 0; i < 32; ++i) t = fmaxf(t, s[i]);
  t = fmaxf(t, __shfl_xor_sync(~0u, t, 1));
  t = fmaxf(t, __shfl_xor_sync(~0u, t, 2));
  g = ex2((m - t) * c);
  m = t;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    s[i] = ex2(s[i] * c - t * c);
    sum += s[i];
  }
  l = l * g + sum;
}
DEVICE void packall(uint32_t (&w)[4][4], const float (&s)[32]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) w[i][j] = pack(s[i * 8 + 2 * j], s[i * 8 + 2 * j + 1]);
  }
}
DEVICE void qk(float (&s)[32], uint64_t q, uint64_t k) {
  hold(s);
  arrive();
#pragma unroll
  for (int i = 0; i < 8; ++i) ss64(s, q + i * 2, k + i * 2, i);
  commit();
}
DEVICE void pv(float (&o)[64], uint32_t (&w)[4][4], uint64_t v) {
  hold(o);
  hold(w);
  arrive();
#pragma unroll
  for (int i = 0; i < 4; ++i) rs128(o, w[i], v + i * 128);
  commit();
}
struct P {
  uint64_t q, k, v;
  int n, mask;
  float c;
  float* out;
};
#define BODY_END                                                          \
  {                                                                       \
    for (int i = 0; i < 64; ++i) p.out[i * 128 + threadIdx.x] = o[i] / l; \
  }
