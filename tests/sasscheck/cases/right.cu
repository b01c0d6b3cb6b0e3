// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// Overlap as in FlashAttention-3, which ptxas keeps right: the new weights are packed behind the wait for the
// product that reads the old ones, in the same piece of straight code.
#include "tests/sasscheck/cases/overlap.h"

extern "C" __global__ void __launch_bounds__(128, 1) fa3_like(P p) {
  float o[64] = {}, s[32], m = -1e30f, l = 0, g;
  uint32_t w[4][4];
  qk(s, p.q, p.k);
  wait<0>();
  hold(s);
  softmax(s, m, l, g, p.c);
  packall(w, s);
  for (int i = 1; i < p.n; ++i) {
    qk(s, p.q, p.k + i * 1024);
    pv(o, w, p.v + i * 1024);
    wait<1>();
    hold(s);
    softmax(s, m, l, g, p.c);
    wait<0>();
    hold(o);
#pragma unroll
    for (int j = 0; j < 64; ++j) o[j] *= g;
    packall(w, s);
  }
  pv(o, w, p.v);
  wait<0>();
  hold(o);
  BODY_END
}

// The wait at the top of the loop, and the weights packed behind it.
extern "C" __global__ void __launch_bounds__(128, 1) wait_at_top(P p) {
  float o[64] = {}, s[32], m = -1e30f, l = 0, g;
  uint32_t w[4][4];
  qk(s, p.q, p.k);
  wait<0>();
  hold(s);
  softmax(s, m, l, g, p.c);
  for (int i = 1; i < p.n; ++i) {
    wait<0>();
    hold(o);
#pragma unroll
    for (int j = 0; j < 64; ++j) o[j] *= g;
    packall(w, s);
    qk(s, p.q, p.k + i * 1024);
    pv(o, w, p.v + i * 1024);
    wait<1>();
    hold(s);
    softmax(s, m, l, g, p.c);
  }
  wait<0>();
  hold(o);
  packall(w, s);
  pv(o, w, p.v);
  wait<0>();
  hold(o);
  BODY_END
}

// With a branch (a mask) while the product is under way.
extern "C" __global__ void __launch_bounds__(128, 1) branch_between(P p) {
  float o[64] = {}, s[32], m = -1e30f, l = 0, g;
  uint32_t w[4][4];
  qk(s, p.q, p.k);
  wait<0>();
  hold(s);
  softmax(s, m, l, g, p.c);
  packall(w, s);
  for (int i = 1; i < p.n; ++i) {
    qk(s, p.q, p.k + i * 1024);
    pv(o, w, p.v + i * 1024);
    wait<1>();
    hold(s);
    if (i * 64 > p.mask) {
#pragma unroll
      for (int j = 0; j < 32; ++j)
        if (int(threadIdx.x) % 4 * 2 + i * 64 + j > p.mask) s[j] = -1e30f;
    }
    softmax(s, m, l, g, p.c);
    wait<0>();
    hold(o);
#pragma unroll
    for (int j = 0; j < 64; ++j) o[j] *= g;
    packall(w, s);
  }
  pv(o, w, p.v);
  wait<0>();
  hold(o);
  BODY_END
}
