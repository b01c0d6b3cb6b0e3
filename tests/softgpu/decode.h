// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// From PTX statements to functions over a warp's lanes. Semantics are those of NVIDIA's PTX ISA.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/softgpu/lanes.h"

namespace unmask::softgpu {

// The address that a lane has in a register of four or eight bytes.
inline u64 address_of(const warp& w, const operand& o, int lane, s64 offset) {
  const u64 base = o.bytes == 8 ? w.at<u64>(o)[lane] : w.at<u32>(o)[lane];
  return base + static_cast<u64>(offset);
}

// What the statements of one kernel share: registers, constants and symbols get their places when
// they are first named.
class context {
 public:
  context(const ptx_module& module, const ptx_entry& entry,
          const std::map<std::string, u64>& variables, kernel& k);
  // Shared memory of the module and of the entry, then local memory.
  void place_variables(const ptx_module& module);
  // The same bits in all lanes. bytes 0: a predicate.
  operand constant(u64 bits, int bytes);
  operand reg(const std::string& name);
  // bytes: what the instruction wants; -1: whatever the register has.
  operand value(const ptx_operand& p, int bytes);
  // The register or constant that an address starts from.
  operand base(const ptx_operand& p);

  const ptx_entry& entry;
  kernel& k;

 private:
  std::map<std::string, operand> registers_;
  std::map<std::pair<u64, int>, operand> constants_;
  std::map<std::string, u64> symbols_;
};

// The type that an instruction ends with: b, u, s, f or p (predicate), and its bytes.
struct type_info {
  char kind = 'b';
  int bytes = 0;
};
bool type_of(const std::string& text, type_info* out);

template <class F>
runner by_size(int bytes, F&& f) {
  switch (bytes) {
    case 2:
      return f(u16{});
    case 4:
      return f(u32{});
    case 8:
      return f(u64{});
    default:
      throw ptx_error("operand size " + std::to_string(bytes));
  }
}
template <class F>
runner by_integer(type_info t, F&& f) {
  const bool sign = t.kind == 's';
  switch (t.bytes) {
    case 2:
      return sign ? f(s16{}) : f(u16{});
    case 4:
      return sign ? f(s32{}) : f(u32{});
    case 8:
      return sign ? f(s64{}) : f(u64{});
    default:
      throw ptx_error("operand size");
  }
}
template <class F>
runner by_type(type_info t, F&& f) {
  if (t.kind == 'f') {
    if (t.bytes == 4) return f(float{});
    if (t.bytes == 8) return f(double{});
    throw ptx_error("float type");
  }
  return by_integer(t, f);
}

// One statement on its way to an instruction. Every function but the helpers decodes a family of
// instructions and throws ptx_error for what it does not know: nothing is guessed.
class decoder {
 public:
  decoder(context& shared, const ptx_statement& statement, instruction& to);
  void decode();

 private:
  [[noreturn]] void refuse() const;
  void take(std::size_t n, int bytes) { pool.push_back(c.value(P.at(n), bytes)); }
  // Operands are complete; the first `outputs` of them are written.
  void finish(int outputs);
  // One result; operands of these bytes.
  void simple(std::initializer_list<int> widths);
  void need_nearest_rounding() const;

  void move();
  void pack();
  void unpack();
  void convert_address();
  void arithmetic();
  void divide_approximately();
  void multiply();
  void multiply_wide();
  void multiply_high();
  void multiply_add();
  void fused_multiply_add();
  void absolute_or_negative();
  void copy_sign();
  void special_function();
  void dot_product();
  void logic();
  void logic_of_predicates();
  void logic_of_three();
  void shift();
  void funnel_shift();
  void select();
  void set_predicate();
  void convert();
  void convert_integer(type_info to, type_info from);
  void convert_float(type_info to, type_info from);
  void round_to_integer(type_info to, type_info from);
  void convert_to_float(type_info to, type_info from);
  void count_bits();
  void find_bit();
  void reverse_bits();
  void insert_bits();
  void extract_bits();
  void permute_bytes();
  void load_or_store();
  void load_acquired();
  void atomic_update();
  std::size_t take_matrices(const ptx_operand& values, const ptx_operand& at);
  void load_matrix();
  void store_matrix();
  void copy_async();
  void shuffle_lanes();
  void vote_lanes();
  void barrier();
  void move_registers();
  void memory_barrier();
  void copy_bulk();
  void arrive_behind_copies();
  void copy_tensor();
  void store_async();
  void cluster_barrier();
  void map_address();
  void find_rank();
  void dependency();
  void prefetch();
  void prefetch_map();
  void branch();
  void leave();
  void trap();
  void nothing();
  void fence();
  void matrix_product();
  void warpgroup_product();

  context& c;
  const ptx_statement& s;
  instruction& i;
  const std::string& op;
  const std::vector<ptx_operand>& P;
  type_info t;
  std::vector<operand> pool;
};

}  // namespace unmask::softgpu
