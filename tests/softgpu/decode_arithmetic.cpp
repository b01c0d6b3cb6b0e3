// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <cfenv>
#include <cmath>
#include <limits>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

// Off by -2 .. 2 units in the last place, the same for the same bits.
float err(float exact, u32 of) {
  if (!options().rough || !std::isfinite(exact) || exact == 0) return exact;
  u32 h = of * 0x9E3779B1U;
  h ^= h >> 15;
  h *= 0x85EBCA77U;
  h ^= h >> 13;
  const int steps = static_cast<int>(h % 5) - 2;
  float x = exact;
  for (int n = 0; n < std::abs(steps); ++n)
    x = std::nextafter(x, steps > 0 ? HUGE_VALF : -HUGE_VALF);
  return x;
}

float ftz(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
}

template <class T>
T ptx_max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b != b ? std::numeric_limits<T>::quiet_NaN() : b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a > b ? a : b;
}
template <class T>
T ptx_min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a) return b != b ? std::numeric_limits<T>::quiet_NaN() : b;
    if (b != b) return a;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}

[[gnu::noinline]] float fma_rounded(float a, float b, float c, int how) {
  const int before = std::fegetround();
  std::fesetround(how);
  volatile float va = a, vb = b, vc = c;
  volatile float r = std::fma(va, vb, vc);
  std::fesetround(before);
  return r;
}

}  // namespace

void decoder::arithmetic() {
  if (s.is("sat") || s.is("cc") || s.is("NaN") || s.is("xorsign") || s.is("abs")) refuse();
  need_nearest_rounding();
  const bool flush = s.is("ftz");
  if (flush) refuse();
  simple({t.bytes, t.bytes, t.bytes});
  if (op == "div" && s.is("approx")) return divide_approximately();
  if (op == "div" && s.is("full")) refuse();
  i.run = by_type(t, [&](auto v) -> runner {
    using T = decltype(v);
    using U = std::conditional_t<
        std::is_floating_point_v<T>, T,
        std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>>;
    if (op == "add")
      return two<T, T, T>(
          [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); });
    if (op == "sub")
      return two<T, T, T>(
          [](T a, T b) { return static_cast<T>(static_cast<U>(a) - static_cast<U>(b)); });
    if (op == "mul") {
      if constexpr (sizeof(T) == 2) {
        return two<T, T, T>(
            [](T a, T b) { return static_cast<T>(static_cast<u32>(a) * static_cast<u32>(b)); });
      } else {
        return two<T, T, T>(
            [](T a, T b) { return static_cast<T>(static_cast<U>(a) * static_cast<U>(b)); });
      }
    }
    if (op == "max") return two<T, T, T>([](T a, T b) { return ptx_max(a, b); });
    if (op == "min") return two<T, T, T>([](T a, T b) { return ptx_min(a, b); });
    if (op == "div") {
      if constexpr (std::is_floating_point_v<T>) {
        return two<T, T, T>([](T a, T b) { return a / b; });
      } else {
        return two<T, T, T>([](T a, T b) {
          if (b == 0) return static_cast<T>(-1);
          if constexpr (std::is_signed_v<T>) {
            if (b == -1) return static_cast<T>(0 - static_cast<U>(a));
          }
          return static_cast<T>(a / b);
        });
      }
    }
    if constexpr (!std::is_floating_point_v<T>) {
      return two<T, T, T>([](T a, T b) {
        if (b == 0) return a;
        if constexpr (std::is_signed_v<T>) {
          if (b == -1) return static_cast<T>(0);
        }
        return static_cast<T>(a % b);
      });
    }
    refuse();
  });
}

void decoder::divide_approximately() {
  i.run = two<float, float, float>([](float a, float b) {
    const float m = std::fabs(b);
    if (m > 0x1p126F && m < std::numeric_limits<float>::infinity()) {
      return std::isinf(a) ? std::numeric_limits<float>::quiet_NaN()
                           : std::copysign(0.0F, a * std::copysign(1.0F, b));
    }
    return err(a / b, std::bit_cast<u32>(a) * 31 + std::bit_cast<u32>(b));
  });
}

void decoder::multiply() {
  if (s.is("wide")) return multiply_wide();
  if (s.is("hi")) return multiply_high();
  if (t.kind != 'f' && !s.is("lo")) refuse();
  arithmetic();
}

void decoder::multiply_wide() {
  simple({2 * t.bytes, t.bytes, t.bytes});
  if (t.bytes == 4 && t.kind == 's') {
    i.run = two<s64, s32, s32>([](s32 a, s32 b) { return static_cast<s64>(a) * b; });
  } else if (t.bytes == 4) {
    i.run = two<u64, u32, u32>([](u32 a, u32 b) { return static_cast<u64>(a) * b; });
  } else if (t.bytes == 2 && t.kind == 's') {
    i.run = two<s32, s16, s16>([](s16 a, s16 b) { return static_cast<s32>(a) * b; });
  } else if (t.bytes == 2) {
    i.run = two<u32, u16, u16>([](u16 a, u16 b) { return static_cast<u32>(a) * b; });
  } else {
    refuse();
  }
}

void decoder::multiply_high() {
  simple({t.bytes, t.bytes, t.bytes});
  if (t.bytes == 4 && t.kind == 's') {
    i.run = two<s32, s32, s32>(
        [](s32 a, s32 b) { return static_cast<s32>(static_cast<s64>(a) * b >> 32); });
  } else if (t.bytes == 4) {
    i.run = two<u32, u32, u32>(
        [](u32 a, u32 b) { return static_cast<u32>(static_cast<u64>(a) * b >> 32); });
  } else if (t.bytes == 8 && t.kind == 's') {
    i.run = two<s64, s64, s64>(
        [](s64 a, s64 b) { return static_cast<s64>(static_cast<__int128>(a) * b >> 64); });
  } else if (t.bytes == 8) {
    i.run = two<u64, u64, u64>(
        [](u64 a, u64 b) { return static_cast<u64>(static_cast<unsigned __int128>(a) * b >> 64); });
  } else {
    refuse();
  }
}

void decoder::multiply_add() {
  if (s.is("wide")) {
    simple({2 * t.bytes, t.bytes, t.bytes, 2 * t.bytes});
    if (t.bytes == 4 && t.kind == 's') {
      i.run = three<s64, s32, s32, s64>(
          [](s32 a, s32 b, s64 d) { return static_cast<s64>(a) * b + d; });
    } else if (t.bytes == 4) {
      i.run = three<u64, u32, u32, u64>(
          [](u32 a, u32 b, u64 d) { return static_cast<u64>(a) * b + d; });
    } else {
      refuse();
    }
    return;
  }
  if (!s.is("lo") || s.is("cc")) refuse();
  simple({t.bytes, t.bytes, t.bytes, t.bytes});
  i.run = by_size(t.bytes, [](auto v) {
    using T = decltype(v);
    return three<T, T, T, T>([](T a, T b, T d) { return static_cast<T>(a * b + d); });
  });
}

void decoder::fused_multiply_add() {
  if (s.is("ftz") || s.is("sat") || s.is("relu")) refuse();
  simple({t.bytes, t.bytes, t.bytes, t.bytes});
  if (t.bytes == 8 && s.is("rn")) {
    i.run = three<double, double, double, double>(
        [](double a, double b, double d) { return __builtin_fma(a, b, d); });
  } else if (t.bytes == 4 && s.is("rn")) {
    i.run = three<float, float, float, float>(
        [](float a, float b, float d) { return __builtin_fmaf(a, b, d); });
  } else if (t.bytes == 4 && s.is("rm")) {
    i.run = three<float, float, float, float>(
        [](float a, float b, float d) { return fma_rounded(a, b, d, FE_DOWNWARD); });
  } else if (t.bytes == 4 && s.is("rz")) {
    i.run = three<float, float, float, float>(
        [](float a, float b, float d) { return fma_rounded(a, b, d, FE_TOWARDZERO); });
  } else {
    refuse();
  }
}

void decoder::absolute_or_negative() {
  if (s.is("ftz")) refuse();
  simple({t.bytes, t.bytes});
  const bool neg = op == "neg";
  if (t.kind == 'f' && t.bytes == 4) {
    i.run = neg ? one<u32, u32>([](u32 a) { return a ^ 0x80000000U; })
                : one<u32, u32>([](u32 a) { return a & 0x7FFFFFFFU; });
  } else if (t.kind == 'f') {
    i.run = neg ? one<u64, u64>([](u64 a) { return a ^ (u64{1} << 63); })
                : one<u64, u64>([](u64 a) { return a & ~(u64{1} << 63); });
  } else {
    i.run = by_integer(t, [&](auto v) -> runner {
      using T = decltype(v);
      using U = std::make_unsigned_t<T>;
      if (neg) return one<T, T>([](T a) { return static_cast<T>(0 - static_cast<U>(a)); });
      return one<T, T>([](T a) { return a < 0 ? static_cast<T>(0 - static_cast<U>(a)) : a; });
    });
  }
}

// The value of the second operand with the sign of the first.
void decoder::copy_sign() {
  simple({t.bytes, t.bytes, t.bytes});
  if (t.kind != 'f' || s.op.size() != 2) refuse();
  if (t.bytes == 4) {
    i.run = two<u32, u32, u32>([](u32 a, u32 b) { return (a & 0x80000000U) | (b & 0x7FFFFFFFU); });
  } else {
    constexpr u64 sign = u64{1} << 63;
    i.run = two<u64, u64, u64>([](u64 a, u64 b) { return (a & sign) | (b & ~sign); });
  }
}

void decoder::special_function() {
  simple({t.bytes, t.bytes});
  const bool flush = s.is("ftz");
  if (op == "rcp" && s.is("approx") && t.bytes == 8 && flush) {
    // The upper 32 bits of a reciprocal; subnormal operands and results are zero.
    i.run = one<double, double>([](double x) {
      if (std::fpclassify(x) == FP_SUBNORMAL) x = std::copysign(0.0, x);
      double r = 1.0 / x;
      if (std::fpclassify(r) == FP_SUBNORMAL) r = std::copysign(0.0, r);
      return std::bit_cast<double>(std::bit_cast<u64>(r) & 0xFFFFFFFF00000000U);
    });
  } else if (op == "rcp" && s.is("rn") && !flush) {
    i.run = t.bytes == 4 ? one<float, float>([](float x) { return 1.0F / x; })
                         : one<double, double>([](double x) { return 1.0 / x; });
  } else if (op == "sqrt" && s.is("rn") && !flush) {
    i.run = t.bytes == 4 ? one<float, float>([](float x) { return std::sqrt(x); })
                         : one<double, double>([](double x) { return std::sqrt(x); });
  } else if (op == "ex2" && s.is("approx") && t.bytes == 4) {
    i.run = flush ? one<float, float>([](float x) {
      return ftz(std::exp2(x) == 1.0F ? 1.0F : err(std::exp2(ftz(x)), std::bit_cast<u32>(x)));
    })
                  : one<float, float>([](float x) { return std::exp2(x); });
  } else if (op == "lg2" && s.is("approx") && t.bytes == 4) {
    i.run = flush ? one<float, float>([](float x) { return ftz(std::log2(ftz(x))); })
                  : one<float, float>([](float x) { return std::log2(x); });
  } else if (op == "rcp" && s.is("approx") && t.bytes == 4) {
    i.run = flush ? one<float, float>([](float x) { return ftz(1.0F / ftz(x)); })
                  : one<float, float>([](float x) { return 1.0F / x; });
  } else if (op == "rsqrt" && s.is("approx") && t.bytes == 4) {
    i.run = flush ? one<float, float>([](float x) { return ftz(1.0F / std::sqrt(ftz(x))); })
                  : one<float, float>([](float x) { return 1.0F / std::sqrt(x); });
  } else {
    refuse();
  }
}

void decoder::dot_product() {
  if (s.op.size() != 3 || s.op[1] != "s32" || s.op[2] != "s32") refuse();
  simple({4, 4, 4, 4});
  i.run = three<u32, u32, u32, u32>([](u32 a, u32 b, u32 sum) {
    for (int n = 0; n < 4; ++n) {
      sum += static_cast<u32>(static_cast<s32>(static_cast<s8>(a >> (8 * n))) *
                              static_cast<s32>(static_cast<s8>(b >> (8 * n))));
    }
    return sum;
  });
}

}  // namespace unmask::softgpu
