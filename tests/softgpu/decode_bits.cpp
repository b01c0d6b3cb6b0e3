// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "tests/softgpu/decode.h"

namespace unmask::softgpu {

void decoder::move() {
  if (P.size() == 2 && P[1].what == ptx_operand::form::vector) return pack();
  if (P.size() == 2 && P[0].what == ptx_operand::form::vector) return unpack();
  if (t.kind == 'p') {
    take(0, 0);
    take(1, 0);
    i.run = [](warp& w, const instruction& x) {
      u32* d = w.at<u32>(x.o[0]);
      *d = (*d & ~w.active) | (w.mask(x.o[1]) & w.active);
    };
    finish(1);
    return;
  }
  simple({t.bytes, t.bytes});
  i.run = by_size(t.bytes, [](auto v) {
    using T = decltype(v);
    return one<T, T>([](T a) { return a; });
  });
}

// d = {a, b, ...}
void decoder::pack() {
  const int parts = static_cast<int>(P[1].parts.size()), each = t.bytes / parts;
  take(0, t.bytes);
  for (const ptx_operand& p : P[1].parts) pool.push_back(c.value(p, each));
  i.extra = static_cast<u32>(each);
  i.run = [](warp& w, const instruction& x) {
    each_lane(w.active, [&](int l) {
      u64 v = 0;
      for (int n = 1; n < x.count; ++n) {
        u64 part = 0;
        std::memcpy(&part, w.at<u8>(x.o[n]) + l * static_cast<int>(x.extra), x.extra);
        v |= part << (8 * x.extra * static_cast<u32>(n - 1));
      }
      std::memcpy(w.at<u8>(x.o[0]) + l * x.o[0].bytes, &v, x.o[0].bytes);
    });
  };
  finish(1);
}

// {d, e, ...} = a
void decoder::unpack() {
  const int parts = static_cast<int>(P[0].parts.size()), each = t.bytes / parts;
  for (const ptx_operand& p : P[0].parts)
    pool.push_back(c.value(p, p.what == ptx_operand::form::sink ? -1 : each));
  pool.push_back(c.value(P[1], t.bytes));
  i.extra = static_cast<u32>(each);
  i.run = [](warp& w, const instruction& x) {
    each_lane(w.active, [&](int l) {
      u64 v = 0;
      const operand& from = x.o[x.count - 1];
      std::memcpy(&v, w.at<u8>(from) + l * from.bytes, from.bytes);
      for (int n = 0; n < x.count - 1; ++n) {
        if (x.o[n].bank == operand::nowhere) continue;
        const u64 part = v >> (8 * x.extra * static_cast<u32>(n));
        std::memcpy(w.at<u8>(x.o[n]) + l * static_cast<int>(x.extra), &part, x.extra);
      }
    });
  };
  finish(parts);
}

// Addresses of the global space are generic addresses.
void decoder::convert_address() {
  simple({8, 8});
  if (s.is("shared")) {
    i.run = s.is("to") ? one<u64, u64>([](u64 a) { return a - shared_window; })
                       : one<u64, u64>([](u64 a) { return a + shared_window; });
  } else if (s.is("local")) {
    i.run = s.is("to") ? one<u64, u64>([](u64 a) { return a - local_window; })
                       : one<u64, u64>([](u64 a) { return a + local_window; });
  } else if (s.is("param")) {
    i.run = s.is("to") ? one<u64, u64>([](u64 a) { return a - parameter_window; })
                       : one<u64, u64>([](u64 a) { return a + parameter_window; });
  } else if (s.is("global") || s.is("const")) {
    i.run = one<u64, u64>([](u64 a) { return a; });
  } else {
    refuse();
  }
}

void decoder::logic() {
  if (t.kind == 'p') return logic_of_predicates();
  if (op == "not") {
    simple({t.bytes, t.bytes});
    i.run = by_size(t.bytes, [](auto v) {
      using T = decltype(v);
      return one<T, T>([](T a) { return static_cast<T>(~a); });
    });
    return;
  }
  simple({t.bytes, t.bytes, t.bytes});
  i.run = by_size(t.bytes, [&](auto v) -> runner {
    using T = decltype(v);
    if (op == "and") return two<T, T, T>([](T a, T b) { return static_cast<T>(a & b); });
    if (op == "or") return two<T, T, T>([](T a, T b) { return static_cast<T>(a | b); });
    return two<T, T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
  });
}

void decoder::logic_of_predicates() {
  take(0, 0);
  take(1, 0);
  if (op != "not") take(2, 0);
  finish(1);
  i.extra = op == "and" ? 0 : op == "or" ? 1 : op == "xor" ? 2 : 3;
  i.run = [](warp& w, const instruction& x) {
    const u32 a = w.mask(x.o[1]), b = x.extra == 3 ? 0 : w.mask(x.o[2]);
    const u32 r = x.extra == 0 ? (a & b) : x.extra == 1 ? (a | b) : x.extra == 2 ? (a ^ b) : ~a;
    u32* d = w.at<u32>(x.o[0]);
    *d = (*d & ~w.active) | (r & w.active);
  };
}

void decoder::shift() {
  if (op == "shl" || t.kind != 's') {
    simple({t.bytes, t.bytes, 4});
    i.run = by_size(t.bytes, [&](auto v) -> runner {
      using T = decltype(v);
      if (op == "shl") {
        return two<T, T, u32>([](T a, u32 b) {
          return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(static_cast<u64>(a) << b);
        });
      }
      return two<T, T, u32>(
          [](T a, u32 b) { return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a >> b); });
    });
    return;
  }
  simple({t.bytes, t.bytes, 4});
  i.run = by_integer(t, [&](auto v) -> runner {
    using T = decltype(v);
    return two<T, T, u32>([](T a, u32 b) {
      return static_cast<T>(a >> (b >= 8 * sizeof(T) ? static_cast<u32>(8 * sizeof(T) - 1) : b));
    });
  });
}

void decoder::funnel_shift() {
  simple({4, 4, 4, 4});
  const bool left = s.is("l"), wrap = s.is("wrap");
  if (left && wrap) {
    i.run = three<u32, u32, u32, u32>([](u32 a, u32 b, u32 n) {
      n &= 31;
      return n == 0 ? b : (b << n | a >> (32 - n));
    });
  } else if (!left && wrap) {
    i.run = three<u32, u32, u32, u32>([](u32 a, u32 b, u32 n) {
      n &= 31;
      return n == 0 ? a : (b << (32 - n) | a >> n);
    });
  } else {
    refuse();
  }
}

void decoder::select() {
  simple({t.bytes, t.bytes, t.bytes, 0});
  i.run = by_size(t.bytes, [](auto v) -> runner {
    using T = decltype(v);
    return [](warp& w, const instruction& x) {
      T* d = w.at<T>(x.o[0]);
      const T* a = w.at<T>(x.o[1]);
      const T* b = w.at<T>(x.o[2]);
      const u32 m = w.mask(x.o[3]);
      if (w.active == all_lanes) {
#pragma GCC ivdep
        for (int l = 0; l < 32; ++l) d[l] = (m >> l & 1) != 0 ? a[l] : b[l];
      } else {
        each_lane(w.active, [&](int l) { d[l] = (m >> l & 1) != 0 ? a[l] : b[l]; });
      }
    };
  });
}

void decoder::set_predicate() {
  if (s.is("ftz") || !P[0].second.empty()) refuse();
  take(0, 0);
  take(1, t.bytes);
  take(2, t.bytes);
  i.extra = s.is("and") ? 1 : s.is("or") ? 2 : s.is("xor") ? 3 : 0;
  if (i.extra != 0) take(3, 0);
  finish(1);
  const std::string& how = s.op[1];
  i.run = by_type(t, [&](auto v) -> runner {
    using T = decltype(v);
    if (how == "eq") return compare<T>([](T a, T b) { return a == b; });
    if (how == "lt" || how == "lo") return compare<T>([](T a, T b) { return a < b; });
    if (how == "le" || how == "ls") return compare<T>([](T a, T b) { return a <= b; });
    if (how == "gt" || how == "hi") return compare<T>([](T a, T b) { return a > b; });
    if (how == "ge" || how == "hs") return compare<T>([](T a, T b) { return a >= b; });
    if constexpr (std::is_floating_point_v<T>) {
      if (how == "ne") return compare<T>([](T a, T b) { return a < b || a > b; });
      if (how == "equ") return compare<T>([](T a, T b) { return !(a < b || a > b); });
      if (how == "neu") return compare<T>([](T a, T b) { return !(a == b); });
      if (how == "ltu") return compare<T>([](T a, T b) { return !(a >= b); });
      if (how == "leu") return compare<T>([](T a, T b) { return !(a > b); });
      if (how == "gtu") return compare<T>([](T a, T b) { return !(a <= b); });
      if (how == "geu") return compare<T>([](T a, T b) { return !(a < b); });
      if (how == "num") return compare<T>([](T a, T b) { return a == a && b == b; });
      if (how == "nan") return compare<T>([](T a, T b) { return a != a || b != b; });
    } else {
      if (how == "ne") return compare<T>([](T a, T b) { return a != b; });
    }
    refuse();
  });
}

void decoder::count_bits() {
  simple({4, t.bytes});
  if (op == "popc") {
    i.run = t.bytes == 4 ? one<u32, u32>([](u32 a) { return static_cast<u32>(std::popcount(a)); })
                         : one<u32, u64>([](u64 a) { return static_cast<u32>(std::popcount(a)); });
  } else {
    i.run = t.bytes == 4
                ? one<u32, u32>([](u32 a) { return static_cast<u32>(std::countl_zero(a)); })
                : one<u32, u64>([](u64 a) { return static_cast<u32>(std::countl_zero(a)); });
  }
}

void decoder::find_bit() {
  if (t.kind != 'u' || t.bytes != 4) refuse();
  simple({4, 4});
  i.run = s.is("shiftamt")
              ? one<u32, u32>([](u32 a) {
                  return a == 0 ? all_lanes : static_cast<u32>(std::countl_zero(a));
                })
              : one<u32, u32>([](u32 a) {
                  return a == 0 ? all_lanes : 31U - static_cast<u32>(std::countl_zero(a));
                });
}

void decoder::reverse_bits() {
  if (t.bytes != 4) refuse();
  simple({4, 4});
  i.run = one<u32, u32>([](u32 a) {
    u32 r = 0;
    for (int n = 0; n < 32; ++n) r |= (a >> n & 1) << (31 - n);
    return r;
  });
}

void decoder::insert_bits() {
  simple({t.bytes, t.bytes, t.bytes, 4, 4});
  i.run = by_size(t.bytes, [](auto v) -> runner {
    using T = decltype(v);
    return [](warp& w, const instruction& x) {
      const T *a = w.at<T>(x.o[1]), *b = w.at<T>(x.o[2]);
      const u32 *at = w.at<u32>(x.o[3]), *length = w.at<u32>(x.o[4]);
      T* d = w.at<T>(x.o[0]);
      each_lane(w.active, [&](int l) {
        const u32 pos = at[l] & 0xFF, len = length[l] & 0xFF, top = 8 * sizeof(T);
        T f = b[l];
        for (u32 n = 0; n < len && pos + n < top; ++n) {
          const T bit = static_cast<T>(T{1} << (pos + n));
          f = static_cast<T>((f & ~bit) | ((a[l] >> n & 1) != 0 ? bit : T{0}));
        }
        d[l] = f;
      });
    };
  });
}

void decoder::extract_bits() {
  simple({t.bytes, t.bytes, 4, 4});
  if (t.kind != 'u') refuse();
  i.run = by_size(t.bytes, [](auto v) -> runner {
    using T = decltype(v);
    return three<T, T, u32, u32>([](T a, u32 at, u32 length) {
      at &= 0xFF;
      length &= 0xFF;
      if (at >= 8 * sizeof(T) || length == 0) return T{0};
      const T shifted = static_cast<T>(a >> at);
      return length >= 8 * sizeof(T) ? shifted : static_cast<T>(shifted & ((T{1} << length) - 1));
    });
  });
}

void decoder::permute_bytes() {
  if (s.op.size() != 2) refuse();
  simple({4, 4, 4, 4});
  i.run = three<u32, u32, u32, u32>([](u32 a, u32 b, u32 sel) {
    const u64 all = static_cast<u64>(b) << 32 | a;
    u32 r = 0;
    for (u32 n = 0; n < 4; ++n) {
      const u32 pick = sel >> (4 * n) & 0xF;
      u32 byte = static_cast<u32>(all >> (8 * (pick & 7)) & 0xFF);
      if ((pick & 8) != 0) byte = (byte & 0x80) != 0 ? 0xFF : 0;
      r |= byte << (8 * n);
    }
    return r;
  });
}

void decoder::logic_of_three() {
  if (P.size() != 5) refuse();
  take(0, 4);
  take(1, 4);
  take(2, 4);
  take(3, 4);
  i.extra = static_cast<u32>(P[4].bits);
  finish(1);
  i.run = [](warp& w, const instruction& x) {
    const u32 *a = w.at<u32>(x.o[1]), *b = w.at<u32>(x.o[2]), *d = w.at<u32>(x.o[3]);
    u32* r = w.at<u32>(x.o[0]);
    each_lane(w.active, [&](int l) {
      u32 out = 0;
      for (u32 n = 0; n < 8; ++n) {
        if ((x.extra >> n & 1) == 0) continue;
        out |= ((n & 4) != 0 ? a[l] : ~a[l]) & ((n & 2) != 0 ? b[l] : ~b[l]) &
               ((n & 1) != 0 ? d[l] : ~d[l]);
      }
      r[l] = out;
    });
  };
}

}  // namespace unmask::softgpu
