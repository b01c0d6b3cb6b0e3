// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// warpgroups.h in CUDA C++ and PTX.
#pragma once

#include "kernels/cuda/device/portable.h"

namespace unmask::cuda::native {

#define UNMASK_INLINE __device__ __forceinline__

// Barrier `id` of 1 .. 15 is open when `threads` threads have come: who syncs waits, who arrives does not.
UNMASK_INLINE void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}
UNMASK_INLINE void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(id), "r"(threads) : "memory");
}
template <int count>
UNMASK_INLINE void give_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(count));
#endif
}
template <int count>
UNMASK_INLINE void take_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(count));
#endif
}
// Behind a wait: what the products wrote is not read before it.
template <class T>
UNMASK_INLINE void wgmma_end(T& registers) {
  hold_register(registers);
}

// The reverse of load_matrix_x4_transposed: lane 8 m + i names where row i of 8x8 matrix m goes. Register m of lane l
// has elements (2 (l % 4), l / 4) and the next one of the column.
UNMASK_INLINE void store_matrix_x4_transposed(void* row, const std::uint32_t (&r)[4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};\n" ::"r"(
                   shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
#else
  __trap();
#endif
}

// A descriptor (nvidia.h: wgmma_operand) in two halves. The lower one has the address and is the same in
// all lanes, as the compiler can see behind same_in_warp(), so that it is in a uniform register; the upper
// one is a constant: groups of eight rows are 1024 bytes apart, pieces are swizzled in rows of 128 bytes.
struct wgmma_place {
  std::uint32_t low;
  UNMASK_INLINE wgmma_place further(int units) const {  // of 16 bytes
    return {low + static_cast<std::uint32_t>(units)};
  }
  UNMASK_INLINE std::uint64_t descriptor() const { return std::uint64_t{0x40000040} << 32 | low; }
};
UNMASK_INLINE wgmma_place place_of(const void* tile, int apart) {
  return {static_cast<std::uint32_t>(wgmma_operand(tile, static_cast<std::uint64_t>(apart)))};
}
UNMASK_INLINE wgmma_place same_in_warp(wgmma_place p) {
  return {shuffle(p.low, 0)};
}

#define UNMASK_SUMS_4(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
// a [64, 16] by b [128, 16], transposed, both in shared memory (nvidia.h: wgmma_64x64x16). adds: to what d
// holds; else d is the product, and nobody has to clear it.
template <bool adds>
UNMASK_INLINE void wgmma_64x128x16(float (&d)[16][4], wgmma_place a, wgmma_place b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, add, 1, 1, 0, 0;\n}\n"
      : UNMASK_SUMS_4(0), UNMASK_SUMS_4(1), UNMASK_SUMS_4(2), UNMASK_SUMS_4(3), UNMASK_SUMS_4(4),
        UNMASK_SUMS_4(5), UNMASK_SUMS_4(6), UNMASK_SUMS_4(7), UNMASK_SUMS_4(8), UNMASK_SUMS_4(9),
        UNMASK_SUMS_4(10), UNMASK_SUMS_4(11), UNMASK_SUMS_4(12), UNMASK_SUMS_4(13),
        UNMASK_SUMS_4(14), UNMASK_SUMS_4(15)
      : "l"(a.descriptor()), "l"(b.descriptor()), "n"(adds ? 1 : 0));
#else
  __trap();
#endif
}
// a [64, 16] in registers by b [16, 128] in shared memory, as wgmma_64x128x16 of nvidia.h, by descriptor.
UNMASK_INLINE void wgmma_values(float (&d)[16][4], const std::uint32_t (&a)[4], wgmma_place b) {
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
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()));
#else
  __trap();
#endif
}
// The same by b [16, 64].
UNMASK_INLINE void wgmma_values(float (&d)[8][4], const std::uint32_t (&a)[4], wgmma_place b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred add;\nsetp.ne.b32 add, 1, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}\n"
      : UNMASK_SUMS_4(0), UNMASK_SUMS_4(1), UNMASK_SUMS_4(2), UNMASK_SUMS_4(3), UNMASK_SUMS_4(4),
        UNMASK_SUMS_4(5), UNMASK_SUMS_4(6), UNMASK_SUMS_4(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.descriptor()));
#else
  __trap();
#endif
}
// a [64, 16] by b [n, 16], transposed, as wgmma_64x128x16<adds>; n is 64, 144 or 192.
#define UNMASK_NAMES_0                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define UNMASK_NAMES_32                                                              \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define UNMASK_NAMES_64                                                              \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define UNMASK_SUMS_32(n)                                                             \
  UNMASK_SUMS_4(n), UNMASK_SUMS_4(n + 1), UNMASK_SUMS_4(n + 2), UNMASK_SUMS_4(n + 3), \
      UNMASK_SUMS_4(n + 4), UNMASK_SUMS_4(n + 5), UNMASK_SUMS_4(n + 6), UNMASK_SUMS_4(n + 7)
#define UNMASK_TILE(n, names, first, second, third, ...)                                     \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " third                                 \
               ", 0;\n"                                                                      \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 {" names "}, " first \
               ", " second ", add, 1, 1, 0, 0;\n}\n"                                         \
               : __VA_ARGS__                                                                 \
               : "l"(a.descriptor()), "l"(b.descriptor()), "n"(adds ? 1 : 0))
template <bool adds>
UNMASK_INLINE void wgmma_tile(float (&d)[8][4], wgmma_place a, wgmma_place b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  UNMASK_TILE("64", UNMASK_NAMES_0, "%32", "%33", "%34", UNMASK_SUMS_32(0));
#else
  __trap();
#endif
}
template <bool adds>
UNMASK_INLINE void wgmma_tile(float (&d)[18][4], wgmma_place a, wgmma_place b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  UNMASK_TILE("144", UNMASK_NAMES_0 ", " UNMASK_NAMES_32 ", %64, %65, %66, %67, %68, %69, %70, %71",
              "%72", "%73", "%74", UNMASK_SUMS_32(0), UNMASK_SUMS_32(8), UNMASK_SUMS_4(16),
              UNMASK_SUMS_4(17));
#else
  __trap();
#endif
}
template <bool adds>
UNMASK_INLINE void wgmma_tile(float (&d)[24][4], wgmma_place a, wgmma_place b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  UNMASK_TILE("192", UNMASK_NAMES_0 ", " UNMASK_NAMES_32 ", " UNMASK_NAMES_64, "%96", "%97", "%98",
              UNMASK_SUMS_32(0), UNMASK_SUMS_32(8), UNMASK_SUMS_32(16));
#else
  __trap();
#endif
}
#undef UNMASK_TILE
#undef UNMASK_SUMS_32
#undef UNMASK_NAMES_0
#undef UNMASK_NAMES_32
#undef UNMASK_NAMES_64
#undef UNMASK_SUMS_4
#undef UNMASK_INLINE

}  // namespace unmask::cuda::native
