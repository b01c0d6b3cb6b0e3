// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/softgpu/decode.h"

namespace unmask::softgpu {
namespace {

// ---- loads and stores ----
// extra: bytes of an element | sign << 8 | floating? no | space << 16; operands: values..., address
struct access {
  u32 bytes, count;
  bool is_signed;
  space where;
};
access access_of(const instruction& i) {
  return {i.extra & 0xFF, i.extra2, (i.extra >> 8 & 1) != 0, static_cast<space>(i.extra >> 16)};
}
u64 masked_address(u64 a, space s) {
  return s == space::shared || s == space::cluster ? a & 0xFFFFFFFFU : a;
}
// The state space that an instruction names; generic: none.
space space_of(const ptx_statement& s) {
  if (s.is("shared") || s.is("shared::cta")) return space::shared;
  if (s.is("shared::cluster")) return space::cluster;
  if (s.is("global") || s.is("const")) return space::global;
  if (s.is("local")) return space::local;
  return s.is("param") ? space::parameter : space::generic;
}

template <class M, class R>  // memory's type, the register's
void gather(warp& w, const operand& to, const u64 (&at)[32]) {
  R* d = w.at<R>(to);
  if (w.active == all_lanes) {
    for (int l = 0; l < 32; ++l) {
      M v;
      std::memcpy(&v, reinterpret_cast<const void*>(at[l]), sizeof(M));
      d[l] = static_cast<R>(v);
    }
  } else {
    each_lane(w.active, [&](int l) {
      M v;
      std::memcpy(&v, reinterpret_cast<const void*>(at[l]), sizeof(M));
      d[l] = static_cast<R>(v);
    });
  }
}
template <class M>
void gather_to(warp& w, const operand& to, const u64 (&at)[32]) {
  if (to.bytes == 8) return gather<M, std::conditional_t<std::is_signed_v<M>, s64, u64>>(w, to, at);
  if (to.bytes == 4) return gather<M, std::conditional_t<std::is_signed_v<M>, s32, u32>>(w, to, at);
  gather<M, std::conditional_t<std::is_signed_v<M>, s16, u16>>(w, to, at);
}
template <class M, class R>
void scatter(warp& w, const operand& from, const u64 (&at)[32]) {
  const R* d = w.at<R>(from);
  each_lane(w.active, [&](int l) {
    const M v = static_cast<M>(d[l]);
    std::memcpy(reinterpret_cast<void*>(at[l]), &v, sizeof(M));
  });
}
template <class M>
void scatter_from(warp& w, const operand& from, const u64 (&at)[32]) {
  if (from.bytes == 8) return scatter<M, u64>(w, from, at);
  if (from.bytes == 4) return scatter<M, u32>(w, from, at);
  scatter<M, u16>(w, from, at);
}

// Where the host finds what each lane names.
void places(warp& w, const instruction& i, const access& a, const operand& o, bool write,
            u64 (&at)[32]) {
  const u32 size = a.bytes * a.count;
  u64 low = ~u64{0}, high = 0, bits = 0;
  if (o.bytes == 8) {
    const u64* base = w.at<u64>(o);
    for (int l = 0; l < 32; ++l) at[l] = base[l] + static_cast<u64>(i.offset);
  } else {
    const u32* base = w.at<u32>(o);
    for (int l = 0; l < 32; ++l) at[l] = base[l] + static_cast<u64>(i.offset);
  }
  if (a.where == space::shared || a.where == space::cluster) {
    for (int l = 0; l < 32; ++l) at[l] &= 0xFFFFFFFFU;
  }
  if (a.where == space::global && !options().global_races && w.last != nullptr &&
      !w.in->grid->followed_accesses) {
    each_lane(w.active, [&](int l) {
      low = std::min(low, at[l]);
      high = std::max(high, at[l]);
      bits |= at[l];
    });
    const allocation& one = *w.last;
    if (low >= one.begin && high + size <= one.end && (bits & (size - 1)) == 0) {
      for (int l = 0; l < 32; ++l) at[l] += static_cast<u64>(one.to_host);
      return;
    }
  }
  each_lane(w.active, [&](int l) {
    at[l] = reinterpret_cast<u64>(reach(w, i, l, a.where, at[l], size, write));
  });
}

void load(warp& w, const instruction& i) {
  const access a = access_of(i);
  u64 at[32];
  const operand& from = i.o[i.count - 1];
  if (a.where == space::parameter && from.bank == operand::constants) {  // the same for all
    const int first = std::countr_zero(w.active);
    const u64 p = reinterpret_cast<u64>(reach(w, i, first, a.where,
                                              w.at<u64>(from)[0] + static_cast<u64>(i.offset),
                                              a.bytes * a.count, false));
    for (int l = 0; l < 32; ++l) at[l] = p;
  } else {
    places(w, i, a, from, false, at);
  }
  for (u32 n = 0; n < a.count; ++n) {
    const operand& to = i.o[n];
    if (to.bank != operand::nowhere) {
      switch (a.bytes) {
        case 1:
          a.is_signed ? gather_to<s8>(w, to, at) : gather_to<u8>(w, to, at);
          break;
        case 2:
          a.is_signed ? gather_to<s16>(w, to, at) : gather_to<u16>(w, to, at);
          break;
        case 4:
          a.is_signed ? gather_to<s32>(w, to, at) : gather_to<u32>(w, to, at);
          break;
        default:
          gather_to<u64>(w, to, at);
      }
    }
    for (int l = 0; l < 32; ++l) at[l] += a.bytes;
  }
}
void store(warp& w, const instruction& i) {
  const access a = access_of(i);
  u64 at[32];
  places(w, i, a, i.o[i.count - 1], true, at);
  for (u32 n = 0; n < a.count; ++n) {
    const operand& from = i.o[n];
    switch (a.bytes) {
      case 1:
        scatter_from<u8>(w, from, at);
        break;
      case 2:
        scatter_from<u16>(w, from, at);
        break;
      case 4:
        scatter_from<u32>(w, from, at);
        break;
      default:
        scatter_from<u64>(w, from, at);
    }
    each_lane(w.active, [&](int l) { at[l] += a.bytes; });
  }
}

// d (or nothing), value, [value2], address: the last operand
template <class T, class F>
runner atomic(F) {
  return [](warp& w, const instruction& i) {
    const access a = access_of(i);
    const operand& where = i.o[i.count - 1];
    const bool returns = i.outputs > 0;
    const operand& v1 = i.o[returns ? 1 : 0];
    const bool has_second = i.count - i.outputs == 3;
    each_lane(w.active, [&](int l) {
      const u64 at = masked_address(address_of(w, where, l, i.offset), a.where);
      u8* p = reach(w, i, l, a.where, at, sizeof(T), true, true);
      T old;
      std::memcpy(&old, p, sizeof(T));
      const T x = w.at<T>(v1)[l];
      const T y = has_second ? w.at<T>(i.o[returns ? 2 : 1])[l] : T{};
      const T now = F{}(old, x, y);
      std::memcpy(p, &now, sizeof(T));
      release_at(w, at);
      if (returns && i.o[0].bank != operand::nowhere) w.at<T>(i.o[0])[l] = old;
    });
  };
}

// Eight addresses for each matrix of eight rows of 16 bytes; lane l gets elements 2 (l % 4) and the
// next of row l / 4, transposed those of column l / 4.
template <bool transposed>
void ldmatrix(warp& w, const instruction& i) {
  const int matrices = static_cast<int>(i.extra);
  const operand& from = i.o[i.count - 1];
  u16 m[4][8][8];
  for (int n = 0; n < matrices; ++n) {
    for (int r = 0; r < 8; ++r) {
      const int lane = n * 8 + r;
      const u64 at = masked_address(address_of(w, from, lane, i.offset), space::shared);
      std::memcpy(m[n][r], reach(w, i, lane, space::shared, at, 16, false), 16);
    }
  }
  for (int n = 0; n < matrices; ++n) {
    u32* d = w.at<u32>(i.o[n]);
    for (int l = 0; l < 32; ++l) {
      const int r = l / 4, c = l % 4 * 2;
      d[l] = transposed ? m[n][c][r] | static_cast<u32>(m[n][c + 1][r]) << 16
                        : m[n][r][c] | static_cast<u32>(m[n][r][c + 1]) << 16;
    }
  }
}

// The reverse: the same lanes' elements go to the rows.
template <bool transposed>
void stmatrix(warp& w, const instruction& i) {
  const operand& to = i.o[i.count - 1];
  for (int n = 0; n < i.count - 1; ++n) {
    const u32* d = w.at<u32>(i.o[n]);
    u16 m[8][8];
    for (int l = 0; l < 32; ++l) {
      for (int e = 0; e < 2; ++e) {
        const int r = l / 4, c = l % 4 * 2 + e;
        m[transposed ? c : r][transposed ? r : c] = static_cast<u16>(d[l] >> (16 * e));
      }
    }
    for (int r = 0; r < 8; ++r) {
      const int lane = n * 8 + r;
      const u64 at = masked_address(address_of(w, to, lane, i.offset), space::shared);
      std::memcpy(reach(w, i, lane, space::shared, at, 16, true), m[r], 16);
    }
  }
}

void start_copy(warp& w, const instruction& i) {
  // to, from, bytes, [source bytes]; offsets of both addresses in extra pools
  const u32 bytes = i.extra;
  const operand &to = i.o[0], &from = i.o[1];
  each_lane(w.active, [&](int l) {
    const u64 at = (address_of(w, to, l, i.offset)) & 0xFFFFFFFFU;
    const u64 source = address_of(w, from, l, static_cast<s32>(i.extra2));
    const u32 valid = i.count > 2 ? w.at<u32>(i.o[2])[l] : bytes;
    if (valid > bytes) fail(w, i, l, 719, "cp.async of more source bytes than bytes");
    block& b = *w.in;
    if (at % bytes != 0) fail(w, i, l, 716, "cp.async to a shared address that is not aligned");
    if (source % bytes != 0)
      fail(w, i, l, 716, "cp.async from a global address that is not aligned");
    if (at < shared_base || at + bytes > b.shared_end) {
      fail(w, i, l, 700,
           "cp.async to shared byte " + std::to_string(static_cast<s64>(at) - shared_base) +
               " of a block with " + std::to_string(b.shared_end - shared_base));
    }
    std::uintptr_t host = 0;
    if (valid > 0) {
      // The source is checked in pieces of what is read.
      host = reinterpret_cast<std::uintptr_t>(
          reach(w, i, l, space::global, source, std::has_single_bit(valid) ? valid : 1, false));
    }
    for (u32 n = 0; n < bytes; ++n) {
      if ((b.flags[at + n] & block::copy_on_its_way) != 0) {
        note(w, i, l, "write under a copy", "two cp.async to the same shared bytes");
        break;
      }
    }
    copy_request r{static_cast<u32>(at), host, static_cast<u8>(bytes), static_cast<u8>(valid)};
    w.open[l].push_back(r);
    for (u32 n = 0; n < bytes; ++n) b.flags[at + n] |= block::copy_on_its_way;
    if (!options().late) {  // the bytes may be there at once; the rules stay
      std::memset(b.shared.data() + at, 0, bytes);
      if (valid > 0) std::memcpy(b.shared.data() + at, reinterpret_cast<const void*>(host), valid);
    }
  });
}

}  // namespace

void decoder::load_or_store() {
  if (s.is("async")) return store_async();
  if (s.is("acquire")) return load_acquired();
  if (s.is("volatile") || s.is("relaxed") || s.is("release")) refuse();
  const space where = space_of(s);
  if (where == space::cluster && c.k.arch < 90) refuse();
  const bool is_load = op == "ld";
  const ptx_operand& values = P.at(is_load ? 0 : 1);
  const ptx_operand& at = P.at(is_load ? 1 : 0);
  std::vector<ptx_operand> parts =
      values.what == ptx_operand::form::vector ? values.parts : std::vector<ptx_operand>{values};
  const u32 count = s.is("v2") ? 2 : s.is("v4") ? 4 : s.is("v8") ? 8 : 1;
  if (parts.size() != count) refuse();
  for (const ptx_operand& p : parts) {
    operand o = c.value(p, p.what == ptx_operand::form::number ? std::max(t.bytes, 2) : -1);
    if (o.bank != operand::nowhere && o.bytes < t.bytes) refuse();
    pool.push_back(o);
  }
  pool.push_back(c.base(at));
  i.offset = at.offset;
  i.extra =
      static_cast<u32>(t.bytes) | (t.kind == 's' ? 0x100U : 0U) | static_cast<u32>(where) << 16;
  i.extra2 = count;
  finish(is_load ? static_cast<int>(count) : 0);
  i.run = is_load ? load : store;
}

// Of words of global memory, by which blocks tell each other how far they are.
void decoder::load_acquired() {
  if (op != "ld" || !s.is("gpu") || !s.is("global") || t.bytes != 4 || t.kind == 'f') refuse();
  take(0, 4);
  pool.push_back(c.base(P.at(1)));
  i.offset = P[1].offset;
  c.k.meets_blocks = true;
  finish(1);
  i.run = acquire_load;
}

void decoder::atomic_update() {
  if (s.is("async")) refuse();
  const space where = space_of(s);
  if (where == space::cluster && c.k.arch < 90) refuse();
  const bool returns = op == "atom";
  if (returns) take(0, t.bytes);
  const std::size_t first = returns ? 1 : 0;
  for (std::size_t n = first + 1; n < P.size(); ++n) take(n, t.bytes);
  pool.push_back(c.base(P.at(first)));
  i.offset = P.at(first).offset;
  i.extra = static_cast<u32>(t.bytes) | static_cast<u32>(where) << 16;
  finish(returns ? 1 : 0);
  i.run = by_type(t, [&](auto v) -> runner {
    using T = decltype(v);
    if (s.is("add")) return atomic<T>([](T a, T b, T) { return static_cast<T>(a + b); });
    if (s.is("min")) return atomic<T>([](T a, T b, T) { return a < b ? a : b; });
    if (s.is("max")) return atomic<T>([](T a, T b, T) { return a > b ? a : b; });
    if (s.is("exch")) return atomic<T>([](T, T b, T) { return b; });
    if constexpr (!std::is_floating_point_v<T>) {
      if (s.is("cas")) return atomic<T>([](T a, T b, T d) { return a == b ? d : a; });
      if (s.is("or")) return atomic<T>([](T a, T b, T) { return static_cast<T>(a | b); });
      if (s.is("and")) return atomic<T>([](T a, T b, T) { return static_cast<T>(a & b); });
      if (s.is("xor")) return atomic<T>([](T a, T b, T) { return static_cast<T>(a ^ b); });
    }
    refuse();
  });
}

// Values, then the address that begins a row; returns how many matrices there are.
std::size_t decoder::take_matrices(const ptx_operand& values, const ptx_operand& at) {
  if (!s.is("sync") || !s.is("aligned") || !s.is("m8n8") || !s.is("b16") ||
      !(s.is("shared") || s.is("shared::cta")))
    refuse();
  const std::size_t n = s.is("x4") ? 4 : s.is("x2") ? 2 : 1;
  const std::vector<ptx_operand> parts =
      values.what == ptx_operand::form::vector ? values.parts : std::vector<ptx_operand>{values};
  if (parts.size() != n) refuse();
  for (const ptx_operand& p : parts) pool.push_back(c.value(p, 4));
  pool.push_back(c.base(at));
  i.offset = at.offset;
  i.aligned = true;
  return n;
}

void decoder::load_matrix() {
  const std::size_t n = take_matrices(P.at(0), P.at(1));
  i.extra = static_cast<u32>(n);
  finish(static_cast<int>(n));
  i.run = s.is("trans") ? ldmatrix<true> : ldmatrix<false>;
}

void decoder::store_matrix() {
  if (c.k.arch < 90) refuse();
  take_matrices(P.at(1), P.at(0));
  finish(0);
  i.run = s.is("trans") ? stmatrix<true> : stmatrix<false>;
}

void decoder::copy_async() {
  if (s.is("mbarrier")) return arrive_behind_copies();
  if (s.is("bulk")) return copy_bulk();
  if (s.is("commit_group")) {
    i.run = [](warp& w, const instruction&) { commit_copies(w, w.active); };
    finish(0);
    return;
  }
  if (s.is("wait_group") || s.is("wait_all")) {
    i.extra = s.is("wait_all") ? 0 : static_cast<u32>(P.at(0).bits);
    if (s.is("wait_all")) {
      i.run = [](warp& w, const instruction& x) {
        commit_copies(w, w.active);
        wait_copies(w, x, w.active, 0);
      };
    } else {
      i.run = [](warp& w, const instruction& x) { wait_copies(w, x, w.active, x.extra); };
    }
    finish(0);
    return;
  }
  if (!(s.is("cg") || s.is("ca")) || !s.is("global") || !(s.is("shared") || s.is("shared::cta")))
    refuse();
  pool.push_back(c.base(P.at(0)));
  pool.push_back(c.base(P.at(1)));
  i.offset = P[0].offset;
  i.extra2 = static_cast<u32>(P[1].offset);
  i.extra = static_cast<u32>(P.at(2).bits);
  if (s.is("cg") && i.extra != 16) throw ptx_error("cp.async.cg copies 16 bytes");
  if (P.size() > 3) take(3, 4);
  finish(0);
  i.run = start_copy;
}

}  // namespace unmask::softgpu
