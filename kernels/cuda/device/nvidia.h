// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The portable vocabulary (portable.h) in CUDA C++ and PTX, for sm_80 and later. Every warp
// collective is for all 32 lanes.
#pragma once

#include <cstdint>

namespace unmask::cuda::native {

#define UNMASK_INLINE __device__ __forceinline__

UNMASK_INLINE unsigned thread_index() {
  return threadIdx.x;
}
UNMASK_INLINE unsigned block_index() {
  return blockIdx.x;
}
UNMASK_INLINE unsigned block_index_y() {
  return blockIdx.y;
}
UNMASK_INLINE unsigned grid_size() {
  return gridDim.x;
}
UNMASK_INLINE unsigned grid_size_y() {
  return gridDim.y;
}
UNMASK_INLINE unsigned block_size() {
  return blockDim.x;
}
UNMASK_INLINE unsigned char* shared_memory() {
  extern __shared__ __align__(1024) unsigned char unmask_shared_memory[];
  return unmask_shared_memory;
}

UNMASK_INLINE void sync_block() {
  __syncthreads();
}
UNMASK_INLINE void sync_warp() {
  __syncwarp();
}
template <class T>
UNMASK_INLINE T shuffle(T value, int lane) {
  return __shfl_sync(0xFFFFFFFFU, value, lane);
}
template <class T>
UNMASK_INLINE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xFFFFFFFFU, value, mask);
}
template <class T>
UNMASK_INLINE T shuffle_up(T value, int delta) {
  return __shfl_up_sync(0xFFFFFFFFU, value, delta);
}
UNMASK_INLINE std::uint32_t warp_vote(bool yes) {
  return __ballot_sync(0xFFFFFFFFU, yes);
}

namespace detail {
template <class T>
struct atomic_word {
  using type = T;
};
template <>
struct atomic_word<std::uint64_t> {
  using type = unsigned long long;
};
}  // namespace detail
template <class T>
using atomic_type = typename detail::atomic_word<T>::type;

template <class T>
UNMASK_INLINE T atomic_add(T* to, T value) {
  return atomicAdd(reinterpret_cast<atomic_type<T>*>(to), static_cast<atomic_type<T>>(value));
}

UNMASK_INLINE std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
// 16 bytes from global to shared memory behind the thread's back; zeros when not valid.
UNMASK_INLINE void copy_async_16(void* shared, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile(
      "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(shared_address(shared)),
      "l"(global), "r"(bytes)
      : "memory");
}
UNMASK_INLINE void copy_async_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}
template <int groups_left>
UNMASK_INLINE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(groups_left) : "memory");
}

UNMASK_INLINE void load_matrix_x4(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
UNMASK_INLINE void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
UNMASK_INLINE void mma_16816(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same with int8 operands, k twice as deep, and int32 sums.
UNMASK_INLINE void mma_16832(std::int32_t (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
      "{%8,%9}, {%0,%1,%2,%3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// Products by warpgroups (wgmma): four warps multiply a [64, 16] by b [64 or 144, 16], transposed.
// Tiles lie in shared memory, in rows of 128 bytes of which piece c of row r lies at c ^ (r & 7), from
// an address that is a multiple of 1024; `a` and `b` point to 16 of k in the first row. What threads
// copied there is seen behind fence_shared_copies() and a barrier. Sums are those of mma_16816 for rows
// 16 w ... of warp w, and undefined from wgmma_begin() to the wgmma_wait() that leaves fewer groups.
// Only machine code for sm_90a has it (queue::has_wgmma).
UNMASK_INLINE void fence_shared_copies() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}
// The registers that the products add to and read are named, so that nothing that the compiler moves
// touches them behind the fence.
UNMASK_INLINE void hold_register(float& f) {
  asm volatile("" : "+f"(f)::"memory");
}
UNMASK_INLINE void hold_register(std::uint32_t& u) {
  asm volatile("" : "+r"(u)::"memory");
}
template <class T, int count>
UNMASK_INLINE void hold_register(T (&all)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) hold_register(all[i]);
}
template <class... T>
UNMASK_INLINE void wgmma_begin(T&... registers) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  (hold_register(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}
UNMASK_INLINE void wgmma_commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}
template <int groups_left>
UNMASK_INLINE void wgmma_wait() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(groups_left) : "memory");
#endif
}
// Its descriptor: the address, `apart` and the distance of groups of eight rows in units of 16 bytes;
// 1 of the last two bits: pieces are swizzled in rows of 128 bytes. The field of the address has 18
// bits, which hold any but that of another block in a cluster.
UNMASK_INLINE std::uint64_t wgmma_operand(const void* shared, std::uint64_t apart = 16) {
  return shared_address(shared) >> 4 | apart >> 4 << 16 | std::uint64_t{1024 >> 4} << 32 |
         std::uint64_t{1} << 62;
}
#define UNMASK_SUMS_8(i)                                                                      \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
UNMASK_INLINE void wgmma_64x144x16(float (&d)[72], const void* a, const void* b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n144k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71}, "
      "%72, %73, add, 1, 1, 0, 0;\n}\n"
      : UNMASK_SUMS_8(0), UNMASK_SUMS_8(8), UNMASK_SUMS_8(16), UNMASK_SUMS_8(24), UNMASK_SUMS_8(32),
        UNMASK_SUMS_8(40), UNMASK_SUMS_8(48), UNMASK_SUMS_8(56), UNMASK_SUMS_8(64)
      : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
#else
  __trap();
#endif
}
#define UNMASK_SUMS_4(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
UNMASK_INLINE void wgmma_64x64x16(float (&d)[8][4], const void* a, const void* b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "%32, %33, add, 1, 1, 0, 0;\n}\n"
      : UNMASK_SUMS_4(0), UNMASK_SUMS_4(1), UNMASK_SUMS_4(2), UNMASK_SUMS_4(3), UNMASK_SUMS_4(4),
        UNMASK_SUMS_4(5), UNMASK_SUMS_4(6), UNMASK_SUMS_4(7)
      : "l"(wgmma_operand(a)), "l"(wgmma_operand(b)));
#else
  __trap();
#endif
}
// a [64, 16], fragments as those of mma_16816, by b [16, 128]: two tiles of 64 columns whose first rows
// are `apart` bytes from each other, rows as above. `b` points to the first, at a multiple of 1024.
UNMASK_INLINE void wgmma_64x128x16(float (&d)[16][4], const std::uint32_t (&a)[4], const void* b,
                                   int apart) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}\n"
      : UNMASK_SUMS_4(0), UNMASK_SUMS_4(1), UNMASK_SUMS_4(2), UNMASK_SUMS_4(3), UNMASK_SUMS_4(4),
        UNMASK_SUMS_4(5), UNMASK_SUMS_4(6), UNMASK_SUMS_4(7), UNMASK_SUMS_4(8), UNMASK_SUMS_4(9),
        UNMASK_SUMS_4(10), UNMASK_SUMS_4(11), UNMASK_SUMS_4(12), UNMASK_SUMS_4(13),
        UNMASK_SUMS_4(14), UNMASK_SUMS_4(15)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),
        "l"(wgmma_operand(b, static_cast<std::uint64_t>(apart))));
#else
  __trap();
#endif
}
#undef UNMASK_SUMS_4
#undef UNMASK_SUMS_8

// sum + the products of the four int8 of each word.
UNMASK_INLINE std::int32_t dot_int8(std::int32_t a, std::int32_t b, std::int32_t sum) {
  return __dp4a(a, b, sum);
}

UNMASK_INLINE float float_bits(std::uint32_t u) {
  return __uint_as_float(u);
}
UNMASK_INLINE std::uint32_t bits_of(float f) {
  return __float_as_uint(f);
}
UNMASK_INLINE std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
UNMASK_INLINE std::uint16_t bf16_of(float f) {
  return static_cast<std::uint16_t>(pack_bf16(f, 0.0F));
}
UNMASK_INLINE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
UNMASK_INLINE float divide_fast(float a, float b) {
  return __fdividef(a, b);
}
// Turns are reduced in float64: sinf and cosf keep an array on the stack for large angles.
UNMASK_INLINE void sine_and_cosine(float angle, float* sine, float* cosine) {
  const double half_turns = static_cast<double>(angle) * 0.31830988618379067;
  sincospif(static_cast<float>(half_turns - 2.0 * rint(0.5 * half_turns)), sine, cosine);
}
UNMASK_INLINE float reciprocal_sqrt(float x) {
  return 1.0F / sqrtf(x);  // correctly rounded steps: the same on every target
}
UNMASK_INLINE float fused_multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
UNMASK_INLINE double fused_multiply_add(double a, double b, double c) {
  return __fma_rn(a, b, c);
}
UNMASK_INLINE int count_bits(std::uint32_t x) {
  return __popc(x);
}
UNMASK_INLINE int leading_zeros(std::uint32_t x) {
  return __clz(static_cast<int>(x));
}
UNMASK_INLINE int first_bit(std::uint32_t x) {
  return __ffs(static_cast<int>(x));
}

// An array in shared memory; the emulator checks its accesses.
template <class T>
class shared_array {
 public:
  shared_array() = default;
  UNMASK_INLINE shared_array(T* data, int count) : data_(data), count_(count) {}
  UNMASK_INLINE T& operator[](int i) const { return data_[i]; }
  UNMASK_INLINE T* data() const { return data_; }
  UNMASK_INLINE int size() const { return count_; }

 private:
  T* data_;
  int count_;
};

// Hands out a block's dynamic shared memory piece by piece, 16-byte aligned.
class shared_allocator {
 public:
  template <class T>
  UNMASK_INLINE shared_array<T> take(int count) {
    T* piece = reinterpret_cast<T*>(shared_memory() + used_);
    used_ += (count * static_cast<int>(sizeof(T)) + 15) / 16 * 16;
    return {piece, count};
  }

 private:
  int used_ = 0;
};

#undef UNMASK_INLINE

}  // namespace unmask::cuda::native
