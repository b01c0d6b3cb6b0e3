// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Products on tensor cores: mma.sync by a warp, wgmma by four.
#pragma once

#include <functional>

#include "tests/softgpu/lanes.h"

namespace unmask::softgpu {

inline float low_bf16(u32 v) {
  return std::bit_cast<float>(v << 16);
}
inline float high_bf16(u32 v) {
  return std::bit_cast<float>(v & 0xFFFF0000U);
}
// c + the sum of `count` products, as rough as tensor cores were seen to be.
float cut_sum(float c, const double* products, int stride, int count);

void mma_bf16(warp& w, const instruction& i);
void mma_int8(warp& w, const instruction& i);
// Adds d, a (registers or a descriptor), the descriptor of b and the predicate to the operands.
void decode_wgmma(const ptx_statement& s, instruction& i,
                  const std::function<void(const ptx_operand&, int bytes)>& add);

}  // namespace unmask::softgpu
