// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// wgmma: descriptors and layouts as the PTX ISA defines them (9.7.15.5) and CUTLASS builds them
// (cute/atom/mma_traits_sm90_gmma.hpp, canonical layouts).
#include <algorithm>
#include <cstdio>

#include "tests/softgpu/tensor.h"

namespace unmask::softgpu {

// extra: n | a in registers << 16 | transposed a << 17 | transposed b << 18 | negated a, b << 19, 20

void decode_wgmma(const ptx_statement& s, instruction& i,
                  const std::function<void(const ptx_operand&, int)>& add) {
  if (s.op[1] != "mma_async" || !s.is("f32") || !s.is("bf16") || !s.is("sync") ||
      !s.is("aligned")) {
    throw ptx_error("this wgmma is not supported");
  }
  int m = 0, n = 0, k = 0;
  for (const std::string& part : s.op) {
    if (part.rfind("m64n", 0) == 0) std::sscanf(part.c_str(), "m%dn%dk%d", &m, &n, &k);
  }
  if (m != 64 || k != 16 || n % 8 != 0 || n < 8 || n > 256) throw ptx_error("wgmma's shape");
  const auto& P = s.operands;
  if (P.at(0).parts.size() != static_cast<std::size_t>(n / 2)) {
    throw ptx_error("wgmma with " + std::to_string(P[0].parts.size()) + " result registers");
  }
  for (const ptx_operand& p : P[0].parts) add(p, 4);
  const bool registers = P.at(1).what == ptx_operand::form::vector;
  if (P.size() != (registers ? 7U : 8U)) throw ptx_error("wgmma's operands");
  if (registers) {
    if (P[1].parts.size() != 4) throw ptx_error("wgmma's a registers");
    for (const ptx_operand& p : P[1].parts) add(p, 4);
  } else {
    add(P[1], 8);
  }
  add(P[2], 8);
  add(P[3], 0);
  const auto immediate = [&](std::size_t at) { return static_cast<std::int64_t>(P.at(at).bits); };
  for (const std::size_t at : {std::size_t{4}, std::size_t{5}}) {
    if (immediate(at) != 1 && immediate(at) != -1) throw ptx_error("wgmma's scale");
  }
  const bool transposed_a = !registers && immediate(6) != 0;
  const bool transposed_b = immediate(registers ? 6 : 7) != 0;
  i.extra = static_cast<u32>(n) | (registers ? 1U << 16 : 0) | (transposed_a ? 1U << 17 : 0) |
            (transposed_b ? 1U << 18 : 0) | (immediate(4) < 0 ? 1U << 19 : 0) |
            (immediate(5) < 0 ? 1U << 20 : 0);
}

namespace {

// What extra says of a wgmma, see decode_wgmma.
struct wgmma_form {
  explicit wgmma_form(const instruction& i)
      : n(static_cast<int>(i.extra & 0xFFFF)),
        registers((i.extra >> 16 & 1) != 0),
        transposed_a((i.extra >> 17 & 1) != 0),
        transposed_b((i.extra >> 18 & 1) != 0),
        negative((i.extra >> 19 & 1) != (i.extra >> 20 & 1)) {}
  int n;
  bool registers, transposed_a, transposed_b, negative;
  int place_of_a() const { return n / 2; }
  int place_of_b() const { return n / 2 + (registers ? 4 : 1); }
};

// A matrix in shared memory, in bytes; rows of 128 bytes whose 16-byte chunks are swizzled.
struct shared_matrix {
  u32 start = 0, leading = 0, stride = 0;
  // Chunk of 8 elements along the contiguous dimension; K-major: k in chunks of a row.
  u32 k_major(int row, int chunk) const {
    return start + static_cast<u32>(row % 8) * 128 + static_cast<u32>(row / 8) * stride +
           static_cast<u32>(chunk) * 16;
  }
  // MN-major: eight chunks of a row of 64 elements, then `leading` on; eight k, then `stride` on.
  u32 mn_major(int k, int chunk) const {
    return start + static_cast<u32>(chunk % 8) * 16 + static_cast<u32>(chunk / 8) * leading +
           static_cast<u32>(k % 8) * 128 + static_cast<u32>(k / 8) * stride;
  }
};

void note_descriptor(const warp& w, const instruction& i, u64 bits, const std::string& what) {
  char text[32];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(bits));
  note(w, i, 0, "wgmma descriptor", std::string("descriptor ") + text + what);
}

shared_matrix read_descriptor(warp& w, const instruction& i, u64 bits) {
  const auto field = [&](int at) { return static_cast<u32>(bits >> at & 0x3FFF) << 4; };
  const shared_matrix m{field(0), field(16), field(32)};
  const u32 offset = static_cast<u32>(bits >> 49 & 7), swizzle = static_cast<u32>(bits >> 62);
  const u64 unused = u64{3} << 14 | u64{3} << 30 | u64{7} << 46 | u64{0x3FF} << 52;
  if ((bits & unused) != 0) note_descriptor(w, i, bits, " sets bits that are not its fields'");
  if (swizzle != 1) {
    fail(w, i, 0, 719,
         "a descriptor with swizzle " + std::to_string(swizzle) + " is not supported");
  }
  if (offset != 0 || (m.start >> 7 & 7) != 0) {
    note_descriptor(w, i, bits,
                    ": the pattern starts at " + std::to_string(m.start) +
                        ", no multiple of 1024, base offset " + std::to_string(offset));
  }
  return m;
}

// The 16 bytes that the unswizzled address `at` names.
const u16* chunk(warp& w, const instruction& i, u32 at) {
  const u32 place = at ^ (at >> 7 & 7) << 4;
  block& b = *w.in;
  if (place < shared_base || place + 16 > b.shared_end) {
    fail(w, i, 0, 700,
         "wgmma reads shared byte " +
             std::to_string(static_cast<std::int64_t>(place) - shared_base) + " of a block with " +
             std::to_string(b.shared_end - shared_base));
  }
  shared_read(w, i, 0, *w.in, place, 16, true);
  return reinterpret_cast<const u16*>(b.shared.data() + place);
}

// The warp's 16 of 64 rows of a, from registers or from shared memory.
void read_a(warp& w, const wgmma_request& q, const wgmma_form& form, float (&a)[16][16]) {
  const instruction& i = *q.i;
  if (form.registers) {
    for (int r = 0; r < 4; ++r) {
      const u32* from = w.at<u32>(i.o[form.place_of_a() + r]);
      for (int l = 0; l < 32; ++l) {
        const int row = (l >> 2) + (r & 1) * 8, column = (l & 3) * 2 + (r >> 1) * 8;
        a[row][column] = low_bf16(from[l]);
        a[row][column + 1] = high_bf16(from[l]);
      }
    }
    return;
  }
  const shared_matrix m = read_descriptor(w, i, q.a);
  const int first = w.index % 4 * 16;
  for (int n = 0; n < 16; ++n) {
    for (int c = 0; c < 2; ++c) {
      const u16* p =
          chunk(w, i, form.transposed_a ? m.mn_major(n, first / 8 + c) : m.k_major(first + n, c));
      for (int e = 0; e < 8; ++e) {
        (form.transposed_a ? a[c * 8 + e][n] : a[n][c * 8 + e]) = low_bf16(p[e]);
      }
    }
  }
}

void read_b(warp& w, const wgmma_request& q, const wgmma_form& form, float (&b)[16][256]) {
  const instruction& i = *q.i;
  const shared_matrix m = read_descriptor(w, i, q.b);
  if (form.transposed_b) {
    for (int k = 0; k < 16; ++k) {
      for (int c = 0; c < form.n / 8; ++c) {
        const u16* p = chunk(w, i, m.mn_major(k, c));
        for (int e = 0; e < 8; ++e) b[k][c * 8 + e] = low_bf16(p[e]);
      }
    }
    return;
  }
  for (int row = 0; row < form.n; ++row) {
    for (int c = 0; c < 2; ++c) {
      const u16* p = chunk(w, i, m.k_major(row, c));
      for (int e = 0; e < 8; ++e) b[c * 8 + e][row] = low_bf16(p[e]);
    }
  }
}

void multiply(warp& w, const wgmma_request& q) {
  const wgmma_form form(*q.i);
  float a[16][16];
  static thread_local float b[16][256];
  read_a(w, q, form, a);
  read_b(w, q, form, b);
  const float sign = form.negative ? -1.0F : 1.0F;
  for (int r = 0; r < 16; ++r) {
    float sum[256] = {};
    for (int k = 0; k < 16 && !options().rough; ++k) {
      const float x = a[r][k] * sign;
      for (int c = 0; c < form.n; ++c) sum[c] += x * b[k][c];
    }
    for (int c = 0; c < form.n; ++c) {
      // Register 4 (c / 8) + 2 (row / 8) + c % 2 of lane 4 (row % 8) + c % 8 / 2.
      float& d = w.at<float>(q.i->o[c / 8 * 4 + r / 8 * 2 + c % 2])[r % 8 * 4 + c % 8 / 2];
      const float before = q.add ? d : 0.0F;
      if (options().rough) {
        double products[16];
        for (int k = 0; k < 16; ++k) {
          products[k] = static_cast<double>(a[r][k] * sign) * static_cast<double>(b[k][c]);
        }
        d = cut_sum(before, products, 1, 16);
      } else {
        d = before + sum[c];
      }
    }
  }
}

// Registers that the product holds until it is waited for.
void mark(warp& w, const wgmma_request& q) {
  const wgmma_form form(*q.i);
  for (int r = 0; r < form.place_of_b(); ++r) {
    const operand& o = q.i->o[r];
    if (r < form.n / 2) {
      w.busy[o.at / 64] |= 1;
    } else if (form.registers && o.bank == operand::registers) {
      w.busy[o.at / 64] |= 2;
    }
  }
}

u64 same_in_all_lanes(const warp& w, const instruction& i, const operand& o, const char* which) {
  const u64* v = w.at<u64>(o);
  for (int l = 1; l < 32; ++l) {
    if (v[l] != v[0]) {
      note(w, i, l, "wgmma descriptor",
           std::string("the descriptor of ") + which + " differs between lanes");
    }
  }
  return v[0];
}

// All four warps must issue the same products.
void compare_with_warpgroup(warp& w, const wgmma_request& q) {
  std::vector<u64>& log = w.in->group_log[w.index / 4];
  const u64 key = (u64{q.i->index} * 0x9E3779B97F4A7C15U) ^ (q.a * 0xC2B2AE3D27D4EB4FU) ^
                  (q.b * 0x165667B19E3779F9U) ^ (q.add ? 1 : 0);
  if (w.product_count == log.size()) log.push_back(key);
  if (log[w.product_count] != key) {
    note(w, *q.i, 0, "wgmma differs between warps",
         "instruction or descriptors of product " + std::to_string(w.product_count) +
             " of the warpgroup");
  }
  ++w.product_count;
}

// Registers that another instruction accessed since the last wgmma.fence (PTX ISA 9.7.15.7.1).
void look_for_fence(const warp& w, const instruction& i, const wgmma_form& form) {
  if (!w.fenced) note(w, i, 0, "no wgmma.fence", "before the first wgmma");
  for (int r = 0; r < form.place_of_b(); ++r) {
    const bool sum = r < form.n / 2;
    const operand& o = i.o[r];
    if ((!sum && !form.registers) || o.bank != operand::registers) continue;
    if (w.touched[o.at / 64] <= w.fence_clock) continue;
    note(w, i, 0, "no wgmma.fence",
         std::string(sum ? "sum register " : "register of a ") +
             std::to_string(sum ? r : r - form.n / 2) +
             " was accessed by another instruction since the last wgmma.fence");
    return;
  }
}

}  // namespace

void wgmma_issue(warp& w, const instruction& i) {
  const wgmma_form form(i);
  if (w.index / 4 * 4 + 3 >= static_cast<int>(w.in->warps.size())) {
    fail(w, i, 0, 719, "wgmma by less than four warps");
  }
  wgmma_request q;
  q.i = &i;
  if (!form.registers) q.a = same_in_all_lanes(w, i, i.o[form.place_of_a()], "a");
  q.b = same_in_all_lanes(w, i, i.o[form.place_of_b()], "b");
  const u32 p = w.mask(i.o[form.place_of_b() + 1]);
  if (p != 0 && p != all_lanes) {
    note(w, i, 0, "wgmma descriptor", "the predicate of the sum differs between lanes");
  }
  q.add = (p & 1) != 0;
  compare_with_warpgroup(w, q);
  look_for_fence(w, i, form);
  w.products.push_back(q);
  mark(w, q);
  if (options().late) return;
  multiply(w, q);
  w.products.back().done = true;
}

void wgmma_wait(warp& w, std::size_t left) {
  bool some = false;
  while (w.product_groups.size() > left) {
    for (const wgmma_request& q : w.product_groups.front()) {
      if (!q.done) multiply(w, q);
    }
    w.product_groups.pop_front();
    some = true;
  }
  if (!some) return;
  std::fill(w.busy.begin(), w.busy.end(), 0);
  for (const auto& g : w.product_groups) {
    for (const wgmma_request& q : g) mark(w, q);
  }
  for (const wgmma_request& q : w.products) mark(w, q);
}

}  // namespace unmask::softgpu
