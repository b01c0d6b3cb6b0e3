// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// One source, two builds. A kernel written in this vocabulary is compiled by nvcc for the GPU
// (namespace native) and by the host compiler for the emulator (namespace emulated), so that what
// a test runs on any machine is the kernel's own source.
//
//   namespace unmask::cuda::UNMASK_TARGET { ... }      around kernels, launchers and operations
//   UNMASK_KERNEL void name(params p)                  a kernel; one by-value struct of arguments
//   UNMASK_DEVICE T helper(...)                        a function that kernels call
//
// Both namespaces offer: thread_index, block_index, block_index_y, grid_size, grid_size_y,
// block_size; sync_block, sync_warp; shuffle, shuffle_xor, shuffle_up, warp_vote;
// atomic_add; copy_async_16/_commit/_wait; load_matrix_x4
// (_transposed), mma_16816, mma_16832, wgmma_64x64x16, _64x128x16, _64x144x16 (_begin, _commit, _wait,
// fence_shared_copies), dot_int8; pack_bf16, bf16_of, float_bits, bits_of, exp2_fast, divide_fast, sine_and_cosine, reciprocal_sqrt, fused_multiply_add; count_bits,
// leading_zeros, first_bit; word_at; shared_allocator, shared_array. Float functions are those of <cmath> in
// both.
//
// No compiler fuses a product with a sum (--fmad=false): which of two products it rounded would depend
// on the kernel, and with it bits that whole and partial forwards share. What is to be fused says
// fused_multiply_add.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#if defined(__CUDACC__)
#include "kernels/cuda/device/nvidia.h"
#define UNMASK_TARGET native
#define UNMASK_DEVICE __device__ __forceinline__
#define UNMASK_KERNEL static __global__
#define UNMASK_THREADS(count) __launch_bounds__(count)
#define UNMASK_THREADS_BLOCKS(count, blocks) __launch_bounds__(count, blocks)
#else
#include "kernels/cuda/device/emulator.h"
#define UNMASK_TARGET emulated
#define UNMASK_DEVICE inline
#define UNMASK_KERNEL [[maybe_unused]] static
#define UNMASK_THREADS(count)
#define UNMASK_THREADS_BLOCKS(count, blocks)
#endif

namespace unmask::cuda::UNMASK_TARGET {

constexpr int warp_size = 32;

UNMASK_DEVICE int lane_index() {
  return static_cast<int>(thread_index() % warp_size);
}
UNMASK_DEVICE int warp_index() {
  return static_cast<int>(thread_index() / warp_size);
}

UNMASK_DEVICE float bf16_to_float(std::uint16_t h) {
  return float_bits(static_cast<std::uint32_t>(h) << 16);
}
UNMASK_DEVICE float f16_to_float(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000U) << 16;
  const std::uint32_t exponent = (h >> 10) & 0x1FU, fraction = h & 0x3FFU;
  if (exponent == 31) return float_bits(sign | 0x7F800000U | (fraction << 13));
  if (exponent != 0) return float_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
  return float_bits(sign | bits_of(magnitude));
}

// A word of several elements at `p`, in one access. A GPU does it where the address is a multiple of
// the word's size and nowhere else; the host of the emulator does not mind, so it is asked here.
template <class T>
UNMASK_DEVICE T& word_at(void* p) {
#if !defined(__CUDACC__)
  if (reinterpret_cast<std::uintptr_t>(p) % sizeof(T) != 0) {
    emulator::fail("an access of " + std::to_string(sizeof(T)) + " bytes is not aligned");
  }
#endif
  return *static_cast<T*>(p);
}
template <class T>
UNMASK_DEVICE const T& word_at(const void* p) {
  return word_at<T>(const_cast<void*>(p));
}

// Sum, largest and smallest of the warp's values, on every lane; lanes combine in a fixed tree.
template <class T>
UNMASK_DEVICE T warp_sum(T value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
template <class T>
UNMASK_DEVICE T warp_max(T value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const T other = shuffle_xor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}
template <class T>
UNMASK_DEVICE T warp_min(T value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const T other = shuffle_xor(value, mask);
    value = other < value ? other : value;
  }
  return value;
}
// Inclusive prefix sum over the lanes.
template <class T>
UNMASK_DEVICE T warp_scan(T value) {
#pragma unroll
  for (int delta = 1; delta < warp_size; delta *= 2) {
    const T below = shuffle_up(value, delta);
    if (lane_index() >= delta) value += below;
  }
  return value;
}
// Sum over the block, on every thread. scratch: one element per warp; may be used again after the
// next sync_block.
template <class T>
UNMASK_DEVICE T block_sum(T value, const shared_array<T>& scratch) {
  value = warp_sum(value);
  if (lane_index() == 0) scratch[warp_index()] = value;
  sync_block();
  const int warps = static_cast<int>(block_size()) / warp_size;
  T total = scratch[0];
  for (int w = 1; w < warps; ++w) total += scratch[w];
  return total;
}
// Largest over the block, on every thread. scratch as for block_sum.
template <class T>
UNMASK_DEVICE T block_max(T value, const shared_array<T>& scratch) {
  value = warp_max(value);
  if (lane_index() == 0) scratch[warp_index()] = value;
  sync_block();
  const int warps = static_cast<int>(block_size()) / warp_size;
  for (int w = 0; w < warps; ++w) value = scratch[w] > value ? scratch[w] : value;
  return value;
}
// Inclusive prefix sum over the block; *total is the sum of all. scratch as for block_sum.
template <class T>
UNMASK_DEVICE T block_scan(T value, const shared_array<T>& scratch, T* total) {
  value = warp_scan(value);
  if (lane_index() == warp_size - 1) scratch[warp_index()] = value;
  sync_block();
  const int warps = static_cast<int>(block_size()) / warp_size;
  T before = T{}, sum = T{};
  for (int w = 0; w < warps; ++w) {
    if (w == warp_index()) before = sum;
    sum += scratch[w];
  }
  *total = sum;
  return before + value;
}

}  // namespace unmask::cuda::UNMASK_TARGET
