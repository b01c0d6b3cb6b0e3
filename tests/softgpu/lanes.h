// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What an instruction does to all lanes of a warp at once: functions of one, two or three operands,
// and comparisons.
#pragma once

#include <bit>
#include <cstdint>

#include "tests/softgpu/machine.h"

namespace unmask::softgpu {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

constexpr u32 all_lanes = 0xFFFFFFFFU;

template <class F>
inline void each_lane(u32 lanes, F&& f) {
  while (lanes != 0) {
    f(std::countr_zero(lanes));
    lanes &= lanes - 1;
  }
}

template <class D, class A, class F>
runner one(F) {
  return [](warp& w, const instruction& i) {
    D* d = w.at<D>(i.o[0]);
    const A* a = w.at<A>(i.o[1]);
    if (w.active == all_lanes) {
#pragma GCC ivdep
      for (int l = 0; l < 32; ++l) d[l] = F{}(a[l]);
    } else {
      each_lane(w.active, [&](int l) { d[l] = F{}(a[l]); });
    }
  };
}
template <class D, class A, class B, class F>
runner two(F) {
  return [](warp& w, const instruction& i) {
    D* d = w.at<D>(i.o[0]);
    const A* a = w.at<A>(i.o[1]);
    const B* b = w.at<B>(i.o[2]);
    if (w.active == all_lanes) {
#pragma GCC ivdep
      for (int l = 0; l < 32; ++l) d[l] = F{}(a[l], b[l]);
    } else {
      each_lane(w.active, [&](int l) { d[l] = F{}(a[l], b[l]); });
    }
  };
}
template <class D, class A, class B, class C, class F>
runner three(F) {
  return [](warp& w, const instruction& i) {
    D* d = w.at<D>(i.o[0]);
    const A* a = w.at<A>(i.o[1]);
    const B* b = w.at<B>(i.o[2]);
    const C* c = w.at<C>(i.o[3]);
    if (w.active == all_lanes) {
#pragma GCC ivdep
      for (int l = 0; l < 32; ++l) d[l] = F{}(a[l], b[l], c[l]);
    } else {
      each_lane(w.active, [&](int l) { d[l] = F{}(a[l], b[l], c[l]); });
    }
  };
}
// A comparison's result is a mask of lanes. extra: 0 nothing, 1 and, 2 or, 3 xor with operand 3.
template <class A, class F>
runner compare(F) {
  return [](warp& w, const instruction& i) {
    const A* a = w.at<A>(i.o[1]);
    const A* b = w.at<A>(i.o[2]);
    u32 m = 0;
#pragma GCC ivdep
    for (int l = 0; l < 32; ++l) m |= static_cast<u32>(F{}(a[l], b[l])) << l;
    u32 c = all_lanes;
    if (i.extra != 0) c = w.mask(i.o[3]);
    u32 r = i.extra == 0 ? m : i.extra == 1 ? (m & c) : i.extra == 2 ? (m | c) : (m ^ c);
    u32* d = w.at<u32>(i.o[0]);
    *d = (*d & ~w.active) | (r & w.active);
  };
}

}  // namespace unmask::softgpu
