// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
// setmaxnreg: one warpgroup copies with few registers, the others compute with many. -DMANY=232 does not fit: a
// warpgroup would wait for registers that never come.
#include "tests/sasscheck/cases/overlap.h"

#ifndef MANY
#define MANY 208
#endif
extern "C" __global__ void __launch_bounds__(384, 1) by_roles(P p) {
  if (threadIdx.x / 128 == 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;\n");
    if (threadIdx.x == 0) p.out[0] = p.c;
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(MANY));
    float o[64] = {}, s[32], m = -1e30f, l = 0, g;
    uint32_t w[4][4];
    qk(s, p.q, p.k);
    wait<0>();
    hold(s);
    softmax(s, m, l, g, p.c);
    packall(w, s);
    pv(o, w, p.v);
    wait<0>();
    hold(o);
    BODY_END
  }
}
