// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// Products one after the other, whose left operand and sums are written right before the fence. So each fence orders
// registers that no other one does.
#include "tests/sasscheck/cases/overlap.h"

extern "C" __global__ void __launch_bounds__(128, 1) each_fence_orders(P p) {
  float o[64] = {}, s[32], m = -1e30f, l = 0, g;
  uint32_t w[4][4];
#pragma unroll
  for (int i = 0; i < 32; ++i) s[i] = p.c * float(threadIdx.x + i);
#pragma unroll 1
  for (int i = 0; i < p.n; ++i) {
    softmax(s, m, l, g, p.c);
#pragma unroll
    for (int j = 0; j < 64; ++j) o[j] *= g;
    packall(w, s);
    pv(o, w, p.v + i * 1024);
    wait<0>();
    hold(o);
#pragma unroll
    for (int j = 0; j < 32; ++j) s[j] = o[2 * j] - o[2 * j + 1];
  }
  BODY_END
}
