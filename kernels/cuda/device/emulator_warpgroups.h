// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// warpgroups.h in terms of the emulator. Registers that move are not counted.
#pragma once

#include "kernels/cuda/device/emulator.h"

namespace unmask::cuda::emulator {

// A warp comes to barrier `id`; it opens when `threads` have come. Throws emulation_error for more.
void named_barrier_at(int id, int threads, bool waits, const where& place);

}  // namespace unmask::cuda::emulator

namespace unmask::cuda::emulated {

inline void sync_named(int id, int threads, const emu::where& place = emu::where::current()) {
  emu::named_barrier_at(id, threads, true, place);
}
inline void arrive_named(int id, int threads, const emu::where& place = emu::where::current()) {
  emu::named_barrier_at(id, threads, false, place);
}
template <int count>
void give_registers() {}
template <int count>
void take_registers() {}
template <class T>
void wgmma_end(T&) {}

void store_matrix_x4_transposed(void* row, const std::uint32_t (&r)[4],
                                const emu::where& place = emu::where::current());

struct wgmma_place {
  const unsigned char* tile;
  int apart;
  wgmma_place further(int units) const { return {tile + units * 16, apart}; }
};
inline wgmma_place place_of(const void* tile, int apart) {
  return {static_cast<const unsigned char*>(tile), apart};
}
inline wgmma_place same_in_warp(const wgmma_place& p) {
  return p;
}

void wgmma_tile_of(float* d, int columns, bool adds, const wgmma_place& a, const wgmma_place& b,
                   const emu::where& place);
void wgmma_values_of(float* d, int columns, const std::uint32_t* a, const wgmma_place& b,
                     const emu::where& place);
template <bool adds>
void wgmma_64x128x16(float (&d)[16][4], const wgmma_place& a, const wgmma_place& b,
                     const emu::where& place = emu::where::current()) {
  wgmma_tile_of(&d[0][0], 128, adds, a, b, place);
}
template <bool adds, int tiles>
void wgmma_tile(float (&d)[tiles][4], const wgmma_place& a, const wgmma_place& b,
                const emu::where& place = emu::where::current()) {
  static_assert(tiles == 8 || tiles == 18 || tiles == 24);
  wgmma_tile_of(&d[0][0], tiles * 8, adds, a, b, place);
}
template <int tiles>
void wgmma_values(float (&d)[tiles][4], const std::uint32_t (&a)[4], const wgmma_place& b,
                  const emu::where& place = emu::where::current()) {
  wgmma_values_of(&d[0][0], tiles * 8, a, b, place);
}

}  // namespace unmask::cuda::emulated
