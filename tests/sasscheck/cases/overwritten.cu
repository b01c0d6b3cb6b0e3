// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// The same with the wait at the top of the next turn of the loop: ptxas 13.0 gives the new weights the registers of
// the old ones, which a product under way still reads, and warns of nothing.
#include "tests/sasscheck/cases/overlap.h"

extern "C" __global__ void __launch_bounds__(128, 1) packed_before_the_wait(P p) {
  float o[64] = {}, s[32], m = -1e30f, l = 0, g;
  uint32_t w[4][4], nx[4][4];
  qk(s, p.q, p.k);
  wait<0>();
  hold(s);
  softmax(s, m, l, g, p.c);
  packall(nx, s);
#pragma unroll 1
  for (int i = 1; i < p.n; ++i) {
    wait<0>();
    hold(o);
#pragma unroll
    for (int j = 0; j < 64; ++j) o[j] *= g;
#pragma unroll
    for (int a = 0; a < 4; ++a) {
#pragma unroll
      for (int b = 0; b < 4; ++b) w[a][b] = nx[a][b];
    }

    qk(s, p.q, p.k + i * 1024);
    pv(o, w, p.v + i * 1024);
    wait<1>();
    hold(s);

    softmax(s, m, l, g, p.c);
    packall(nx, s);
  }
  wait<0>();
  hold(o);
#pragma unroll
  for (int a = 0; a < 4; ++a) {
#pragma unroll
    for (int b = 0; b < 4; ++b) w[a][b] = nx[a][b];
  }
  pv(o, w, p.v);
  wait<0>();
  hold(o);
  BODY_END
}
