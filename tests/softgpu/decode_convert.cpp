// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// cvt: from one type to another, with the roundings that nvcc asks for.
#include <bit>
#include <cmath>
#include <limits>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

// Values out of range saturate; NaN gives 0.
template <class I, class F>
I to_integer(F x) {
  if (x != x) return 0;
  constexpr F lowest = static_cast<F>(std::numeric_limits<I>::min());
  const F above = std::ldexp(static_cast<F>(1), std::numeric_limits<I>::digits);
  if (x <= lowest) return std::numeric_limits<I>::min();
  if (x >= above) return std::numeric_limits<I>::max();
  return static_cast<I>(x);
}

u32 bf16_bits(float x) {  // rounds to nearest, ties to even
  u32 b = std::bit_cast<u32>(x);
  if (x != x) return 0x7FFF;
  b += 0x7FFF + ((b >> 16) & 1);
  return b >> 16;
}

// Takes the low bytes of the source, extends them by the source's sign, cuts them to the target's
// type and extends that by its sign to the target's register. D and A are registers' types; extra:
// bytes of the source | its sign << 8 | bytes of the target << 16 | its sign << 24.
template <class D, class A>
void resize_integer(warp& w, const instruction& i) {
  const int from_bits = static_cast<int>(i.extra & 0xFF) * 8;
  const int to_bits = static_cast<int>(i.extra >> 16 & 0xFF) * 8;
  const bool from_signed = (i.extra & 0x100) != 0, to_signed = (i.extra & 0x1000000) != 0;
  D* to = w.at<D>(i.o[0]);
  const A* from = w.at<A>(i.o[1]);
  const auto extended = [](u64 bits, int width, bool sign) {
    bits <<= 64 - width;
    return sign ? static_cast<u64>(static_cast<s64>(bits) >> (64 - width)) : bits >> (64 - width);
  };
  each_lane(w.active, [&](int l) {
    const u64 wide = extended(static_cast<u64>(from[l]), from_bits, from_signed);
    to[l] = static_cast<D>(extended(wide, to_bits, to_signed));
  });
}

template <class F>
runner rounding(const ptx_statement& s) {
  if (s.is("rni")) return one<F, F>([](F x) { return std::nearbyint(x); });
  if (s.is("rzi")) return one<F, F>([](F x) { return std::trunc(x); });
  if (s.is("rmi")) return one<F, F>([](F x) { return std::floor(x); });
  if (s.is("rpi")) return one<F, F>([](F x) { return std::ceil(x); });
  return nullptr;
}

template <class I, class F>
runner rounding_to(const ptx_statement& s) {
  if (s.is("rni")) return one<I, F>([](F x) { return to_integer<I>(std::nearbyint(x)); });
  if (s.is("rzi")) return one<I, F>([](F x) { return to_integer<I>(std::trunc(x)); });
  if (s.is("rmi")) return one<I, F>([](F x) { return to_integer<I>(std::floor(x)); });
  if (s.is("rpi")) return one<I, F>([](F x) { return to_integer<I>(std::ceil(x)); });
  return nullptr;
}

}  // namespace

void decoder::convert() {
  const bool to_bf16 = s.is("bf16x2") || (s.is("bf16") && s.op.back() == "f32");
  if (to_bf16 && (!s.is("rn") || s.is("relu") || s.is("satfinite"))) refuse();
  if (s.is("bf16x2")) {
    simple({4, 4, 4});  // the first source is the upper half
    i.run =
        two<u32, float, float>([](float a, float b) { return bf16_bits(a) << 16 | bf16_bits(b); });
    return;
  }
  if (to_bf16) {
    simple({2, 4});
    i.run = one<u16, float>([](float a) { return static_cast<u16>(bf16_bits(a)); });
    return;
  }
  if (s.op.back() == "bf16" && s.is("f32")) {
    simple({4, 2});
    i.run = one<u32, u16>([](u16 a) { return static_cast<u32>(a) << 16; });
    return;
  }
  type_info to, from;
  if (s.op.size() < 3 || !type_of(s.op[s.op.size() - 2], &to) || !type_of(s.op.back(), &from) ||
      s.is("ftz") || P.size() != 2) {
    refuse();
  }
  const bool literal = P[1].what == ptx_operand::form::number;
  pool.push_back(c.value(P[0], -1));
  pool.push_back(c.value(P[1], literal ? from.bytes : -1));
  if (pool[0].bytes < to.bytes || pool[1].bytes < from.bytes) refuse();
  finish(1);
  if (from.kind != 'f')
    return to.kind == 'f' ? convert_to_float(to, from) : convert_integer(to, from);
  return to.kind == 'f' ? convert_float(to, from) : round_to_integer(to, from);
}

void decoder::convert_integer(type_info to, type_info from) {
  if (s.is("sat")) refuse();
  i.extra = static_cast<u32>(from.bytes) | (from.kind == 's' ? 0x100U : 0U) |
            static_cast<u32>(to.bytes) << 16 | (to.kind == 's' ? 0x1000000U : 0U);
  i.run = by_size(i.o[0].bytes, [&](auto d) {
    using D = decltype(d);
    return by_size(i.o[1].bytes, [](auto a) -> runner { return resize_integer<D, decltype(a)>; });
  });
}

void decoder::convert_float(type_info to, type_info from) {
  if (from.bytes == 4 && to.bytes == 8) {
    i.run = one<double, float>([](float x) { return static_cast<double>(x); });
  } else if (from.bytes == 8 && to.bytes == 4 && s.is("rn")) {
    i.run = one<float, double>([](double x) { return static_cast<float>(x); });
  } else if (from.bytes == 4 && to.bytes == 4 && s.is("sat")) {
    i.run = one<float, float>([](float x) {
      return x != x || x <= 0.0F ? 0.0F : x > 1.0F ? 1.0F : x;
    });
  } else if (from.bytes == to.bytes) {
    i.run = to.bytes == 4 ? rounding<float>(s) : rounding<double>(s);
  }
  if (i.run == nullptr) refuse();
}

void decoder::round_to_integer(type_info to, type_info from) {
  if (s.is("sat") || i.o[0].bytes != to.bytes) refuse();
  i.run = by_integer(to, [&](auto v) -> runner {
    using I = decltype(v);
    return from.bytes == 4 ? rounding_to<I, float>(s) : rounding_to<I, double>(s);
  });
  if (i.run == nullptr) refuse();
}

void decoder::convert_to_float(type_info to, type_info from) {
  if (!s.is("rn") || i.o[1].bytes != from.bytes) refuse();
  i.run = by_integer(from, [&](auto v) -> runner {
    using I = decltype(v);
    if (to.bytes == 4) return one<float, I>([](I x) { return static_cast<float>(x); });
    return one<double, I>([](I x) { return static_cast<double>(x); });
  });
}

}  // namespace unmask::softgpu
