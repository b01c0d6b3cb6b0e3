// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// A GPU made of fibers, so that the CUDA kernels' own source runs, and is tested, on any machine.
// Every thread of a block is a fiber; warp collectives and barriers are rendezvous; cp.async lands
// and wgmma multiplies at the wait (or at once, see schedule). Blocks run one after the other, first
// to last or back; those of a cluster run at the same time.
//
// What it finds, each as an emulation_error: collectives that a warp reaches divergently, barriers
// that some threads of a block never reach, accesses outside the block's shared memory (through
// shared_array, cp.async, ldmatrix, wgmma, or by overwriting the guard bytes around it), wgmma on
// what was copied without a fence, reads of a cluster's block that no barrier keeps. A forgotten wait for copies or products, a forgotten barrier or a
// wrong swizzle give wrong numbers under at least one schedule. What it does not show: bank
// conflicts, weak memory ordering, time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace unmask::cuda::emulator {

class emulation_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How threads take turns. Kernels must give the same result under every one.
struct schedule {
  bool eager_copies = false;  // cp.async lands when issued: finds buffers that are reused too early
  bool greedy = false;        // a warp runs as far as it can: finds missing barriers
  std::uint32_t seed = 0;     // not 0: warps and lanes start in a random order on every turn
  bool backwards = false;     // the last block runs first: finds blocks that need an earlier one's
                              // reads or writes, which a GPU promises in no order
};
void set_schedule(const schedule& choice);

struct extent {
  unsigned grid_x = 1, grid_y = 1;
  unsigned threads = 32;  // per block, a multiple of 32
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks along x that share their memory
};

// Runs body(argument) once for every thread of the grid.
void run(const extent& shape, void (*body)(const void*), const void* argument);

// -- called by emulated threads --
unsigned thread_index();
unsigned thread_of_cluster();  // counted over all its blocks
unsigned block_index();
unsigned block_index_y();
unsigned grid_size();
unsigned grid_size_y();
unsigned block_size();
unsigned char* shared_base();
std::size_t shared_size();
[[noreturn]] void fail(const std::string& what);

// std::source_location, which clang 14 (thread sanitizer, fuzzers) does not have.
struct where {
  const char* file;
  unsigned line;
  static constexpr where current(const char* file = __builtin_FILE(),
                                 unsigned line = __builtin_LINE()) {
    return {file, line};
  }
};
// Blocks until all 32 lanes of the warp have called it at the same place with the same `kind`; the
// last one runs complete(arguments of lane 0..31).
void rendezvous(int kind, void* argument, void (*complete)(void** arguments), const where& place);
void barrier(const where& place);
// clusters.h. of_peer() throws for what is no shared memory, no block of the cluster, or a block that no
// barrier keeps.
unsigned rank_in_cluster();
void cluster_barrier(const where& place);
const void* of_peer(const void* own, std::size_t bytes, unsigned rank);
void copy_async(void* shared, const void* global, bool valid);
void copy_commit();
void copy_wait(std::size_t groups_left);
// Throws unless [p, p + bytes) is shared memory of this block and p is aligned to 16.
void check_shared(const void* p, std::size_t bytes);

}  // namespace unmask::cuda::emulator

// The portable vocabulary (portable.h) in terms of the emulator.
namespace unmask::cuda::emulated {

namespace emu = unmask::cuda::emulator;

inline unsigned thread_index() {
  return emu::thread_index();
}
inline unsigned block_index() {
  return emu::block_index();
}
inline unsigned block_index_y() {
  return emu::block_index_y();
}
inline unsigned grid_size() {
  return emu::grid_size();
}
inline unsigned grid_size_y() {
  return emu::grid_size_y();
}
inline unsigned block_size() {
  return emu::block_size();
}
inline unsigned char* shared_memory() {
  return emu::shared_base();
}

inline void sync_block(const emu::where& place = emu::where::current()) {
  emu::barrier(place);
}
inline void sync_warp(const emu::where& place = emu::where::current()) {
  emu::rendezvous(
      0, nullptr, [](void**) {}, place);
}

namespace detail {
template <class T>
struct shuffled {
  T value, result;
  int from;
};
template <class T>
T from_lane(T value, int lane, const emu::where& place) {
  shuffled<T> mine{value, value, lane};
  emu::rendezvous(
      1, &mine,
      [](void** all) {
        for (int l = 0; l < 32; ++l) {
          auto* to = static_cast<shuffled<T>*>(all[l]);
          to->result = static_cast<shuffled<T>*>(all[to->from & 31])->value;
        }
      },
      place);
  return mine.result;
}
}  // namespace detail

// lane must be in [0, 32).
template <class T>
T shuffle(T value, int lane, const emu::where& place = emu::where::current()) {
  return detail::from_lane(value, lane, place);
}
template <class T>
T shuffle_xor(T value, int mask, const emu::where& place = emu::where::current()) {
  return detail::from_lane(value, static_cast<int>(emu::thread_index() % 32) ^ mask, place);
}
// Value of the lane `delta` below; lanes without one keep their own.
template <class T>
T shuffle_up(T value, int delta, const emu::where& place = emu::where::current()) {
  const int lane = static_cast<int>(emu::thread_index() % 32);
  return detail::from_lane(value, lane >= delta ? lane - delta : lane, place);
}
std::uint32_t warp_vote(bool yes, const emu::where& place = emu::where::current());

// Threads run one at a time between rendezvous, so plain code is atomic.
template <class T>
T atomic_add(T* to, T value) {
  const T before = *to;
  *to = before + value;
  return before;
}

inline void copy_async_16(void* shared, const void* global, bool valid) {
  emu::copy_async(shared, global, valid);
}
inline void copy_async_commit() {
  emu::copy_commit();
}
template <int groups_left>
void copy_async_wait() {
  emu::copy_wait(groups_left);
}

void load_matrix_x4(std::uint32_t (&r)[4], const void* row,
                    const emu::where& place = emu::where::current());
void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row,
                               const emu::where& place = emu::where::current());
void mma_16816(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1,
               const emu::where& place = emu::where::current());
void mma_16832(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
               std::uint32_t b1, const emu::where& place = emu::where::current());
// nvidia.h. Products take place when they are waited for, or at once with eager copies.
void fence_shared_copies();
void wgmma_begin_products();
template <class... T>
void wgmma_begin(T&...) {  // the registers of the products to come
  wgmma_begin_products();
}
void wgmma_64x144x16(float (&d)[72], const void* a, const void* b,
                     const emu::where& place = emu::where::current());
void wgmma_64x64x16(float (&d)[8][4], const void* a, const void* b,
                    const emu::where& place = emu::where::current());
void wgmma_64x128x16(float (&d)[16][4], const std::uint32_t (&a)[4], const void* b, int apart,
                     const emu::where& place = emu::where::current());
void wgmma_commit(const emu::where& place = emu::where::current());
void wgmma_wait_for(int groups_left, const emu::where& place);
template <int groups_left>
void wgmma_wait(const emu::where& place = emu::where::current()) {
  wgmma_wait_for(groups_left, place);
}
// Element i of a word of four int8, the first in its lowest byte.
inline std::int32_t int8_of(std::uint32_t word, int i) {
  return static_cast<std::int8_t>(word >> (8 * i) & 0xFFU);
}
inline std::int32_t dot_int8(std::int32_t a, std::int32_t b, std::int32_t sum) {
  for (int i = 0; i < 4; ++i) {
    sum += int8_of(static_cast<std::uint32_t>(a), i) * int8_of(static_cast<std::uint32_t>(b), i);
  }
  return sum;
}

inline float float_bits(std::uint32_t u) {
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
inline std::uint32_t bits_of(float f) {
  std::uint32_t u;
  std::memcpy(&u, &f, 4);
  return u;
}
// Nearest even; NaN becomes the canonical NaN, as cvt.rn.bf16 gives.
inline std::uint16_t bf16_of(float f) {
  const std::uint32_t u = bits_of(f);
  if ((u & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFF;
  return static_cast<std::uint16_t>((u + 0x7FFFU + ((u >> 16) & 1U)) >> 16);
}
inline std::uint32_t pack_bf16(float low, float high) {
  return bf16_of(low) | static_cast<std::uint32_t>(bf16_of(high)) << 16;
}
inline float exp2_fast(float x) {
  return std::exp2(x);
}
inline float divide_fast(float a, float b) {
  return a / b;
}
inline void sine_and_cosine(float angle, float* sine, float* cosine) {
  *sine = std::sin(angle);
  *cosine = std::cos(angle);
}
inline float reciprocal_sqrt(float x) {
  return 1.0F / std::sqrt(x);
}
inline float fused_multiply_add(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline double fused_multiply_add(double a, double b, double c) {
  return std::fma(a, b, c);
}
inline int count_bits(std::uint32_t x) {
  return __builtin_popcount(x);
}
inline int leading_zeros(std::uint32_t x) {
  return x == 0 ? 32 : __builtin_clz(x);
}
inline int first_bit(std::uint32_t x) {  // 1 + index of the lowest set bit; 0: none
  return __builtin_ffs(static_cast<int>(x));
}

// An array in shared memory. Here every access is checked.
template <class T>
class shared_array {
 public:
  shared_array() = default;
  shared_array(T* data, int count) : data_(data), count_(count) {}
  T& operator[](int i) const {
    if (i < 0 || i >= count_) {
      emu::fail("shared array of " + std::to_string(count_) + " elements accessed at " +
                std::to_string(i));
    }
    return data_[i];
  }
  T* data() const { return data_; }  // for cp.async and ldmatrix, which check their addresses
  int size() const { return count_; }

 private:
  T* data_ = nullptr;
  int count_ = 0;
};

// Hands out a block's dynamic shared memory piece by piece, 16-byte aligned.
class shared_allocator {
 public:
  template <class T>
  shared_array<T> take(int count) {
    T* piece = reinterpret_cast<T*>(emu::shared_base() + used_);
    used_ += (static_cast<std::size_t>(count) * sizeof(T) + 15) / 16 * 16;
    if (used_ > emu::shared_size()) {
      emu::fail("the kernel takes " + std::to_string(used_) + " bytes of shared memory, but " +
                std::to_string(emu::shared_size()) + " were asked for at the launch");
    }
    return {piece, count};
  }

 private:
  std::size_t used_ = 0;
};

}  // namespace unmask::cuda::emulated
