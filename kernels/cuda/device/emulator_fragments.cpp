// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the 32 lanes of a warp do together on fragments in registers: votes, matrix loads and stores, products.
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/emulator_warpgroups.h"
#include "kernels/cuda/device/traffic.h"

namespace unmask::cuda::emulated {

namespace {

struct matrix_load {
  const void* row;
  std::uint32_t* result;
};

// ldmatrix.x4: lane 8 m + i names row i of 8x8 matrix m. Register m of lane l receives elements
// (l / 4, 2 (l % 4)) and the next one of the row; transposed, of the column.
template <bool transposed>
void complete_load(void** all) {
  if (emu::counting()) {
    const void* rows[32];
    for (int l = 0; l < 32; ++l) rows[l] = static_cast<matrix_load*>(all[l])->row;
    emu::note_matrix_load(rows);
  }
  for (int m = 0; m < 4; ++m) {
    for (int l = 0; l < 32; ++l) {
      std::uint32_t packed = 0;
      for (int j = 0; j < 2; ++j) {
        const int row = transposed ? l % 4 * 2 + j : l / 4;
        const int column = transposed ? l / 4 : l % 4 * 2 + j;
        const auto* from =
            static_cast<const std::uint16_t*>(static_cast<matrix_load*>(all[m * 8 + row])->row);
        packed |= static_cast<std::uint32_t>(from[column]) << (16 * j);
      }
      static_cast<matrix_load*>(all[l])->result[m] = packed;
    }
  }
}

struct matrix_store {
  void* row;
  const std::uint32_t* from;
};

// stmatrix.x4, transposed: as the load, the other way.
void complete_store(void** all) {
  for (int m = 0; m < 4; ++m) {
    for (int l = 0; l < 32; ++l) {
      const std::uint32_t packed = static_cast<matrix_store*>(all[l])->from[m];
      for (int j = 0; j < 2; ++j) {
        auto* to = static_cast<std::uint16_t*>(
            static_cast<matrix_store*>(all[m * 8 + l % 4 * 2 + j])->row);
        to[l / 4] = static_cast<std::uint16_t>(packed >> (16 * j) & 0xFFFFU);
      }
    }
  }
}

template <class number>
struct product {
  number* c;
  const std::uint32_t* a;
  std::uint32_t b[2];
};

// The elements of a word of operands, by the type of their sums.
template <class number>
struct operand;
template <>
struct operand<float> {  // bfloat16
  static constexpr int count = 2;
  static float at(std::uint32_t word, int j) { return float_bits(word >> (16 * j) << 16); }
};
template <>
struct operand<std::int32_t> {  // int8
  static constexpr int count = 4;
  static std::int32_t at(std::uint32_t word, int j) { return int8_of(word, j); }
};

// mma.m16n8k16 and m16n8k32, row.col: fragments as the PTX manual lays them out, products summed in
// k order.
template <class number>
void complete_mma(void** all) {
  using word = operand<number>;
  constexpr int half = 4 * word::count, depth = 2 * half;
  if (emu::counting()) emu::note_product(2.0 * 16 * 8 * depth);
  number a[16][depth], b[depth][8];
  for (int l = 0; l < 32; ++l) {
    const auto* p = static_cast<const product<number>*>(all[l]);
    const int g = l / 4, t = l % 4;
    for (int j = 0; j < word::count; ++j) {
      const int k = t * word::count + j;
      for (int i = 0; i < 4; ++i) a[g + (i & 1) * 8][k + (i >> 1) * half] = word::at(p->a[i], j);
      for (int i = 0; i < 2; ++i) b[k + i * half][g] = word::at(p->b[i], j);
    }
  }
  for (int l = 0; l < 32; ++l) {
    auto* p = static_cast<product<number>*>(all[l]);
    const int g = l / 4, t = l % 4;
    for (int i = 0; i < 4; ++i) {
      const int row = g + (i >> 1) * 8, column = t * 2 + (i & 1);
      number sum = p->c[i];
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      p->c[i] = sum;
    }
  }
}

struct vote {
  bool yes;
  std::uint32_t result;
};

}  // namespace

std::uint32_t warp_vote(bool yes, const emu::where& place) {
  vote mine{yes, 0};
  emu::rendezvous(
      2, &mine,
      [](void** all) {
        std::uint32_t mask = 0;
        for (int l = 0; l < 32; ++l) {
          mask |= static_cast<std::uint32_t>(static_cast<vote*>(all[l])->yes) << l;
        }
        for (int l = 0; l < 32; ++l) static_cast<vote*>(all[l])->result = mask;
      },
      place);
  return mine.result;
}

void load_matrix_x4(std::uint32_t (&r)[4], const void* row, const emu::where& place) {
  emu::check_shared(row, 16);
  matrix_load mine{row, r};
  emu::rendezvous(3, &mine, complete_load<false>, place);
}
void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row, const emu::where& place) {
  emu::check_shared(row, 16);
  matrix_load mine{row, r};
  emu::rendezvous(4, &mine, complete_load<true>, place);
}
void store_matrix_x4_transposed(void* row, const std::uint32_t (&r)[4], const emu::where& place) {
  emu::check_shared(row, 16);
  if (emu::counting()) emu::note_access(row, 16, true, __builtin_return_address(0));
  matrix_store mine{row, r};
  emu::rendezvous(11, &mine, complete_store, place);
}
void mma_16816(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
               const emu::where& place) {
  product<float> mine{c, a, {b0, b1}};
  emu::rendezvous(5, &mine, complete_mma<float>, place);
}
void mma_16832(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
               std::uint32_t b1, const emu::where& place) {
  product<std::int32_t> mine{c, a, {b0, b1}};
  emu::rendezvous(6, &mine, complete_mma<std::int32_t>, place);
}

}  // namespace unmask::cuda::emulated
