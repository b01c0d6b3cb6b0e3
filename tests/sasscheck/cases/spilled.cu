// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// As right.cu with 128 registers a thread: ptxas spills and serialises (warning C7512).
#include "tests/sasscheck/cases/overlap.h"

extern "C" __global__ void __launch_bounds__(512, 1) too_few_registers(P p) {
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
