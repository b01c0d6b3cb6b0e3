// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The GPU in software against the vendor's definitions, with nothing of the project: products through
// ldmatrix and mma, stmatrix, wgmma from CUTLASS' canonical layouts (Swizzle<3,4,3>, K-major and MN-major), and single
// instructions against the host. Prints what is wrong; exit code 1 then.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/softgpu/selftest.h"

static float from_bf16(std::uint16_t h) {
  const std::uint32_t b = std::uint32_t{h} << 16;
  float f;
  std::memcpy(&f, &b, 4);
  return f;
}
static std::uint16_t small_bf16() {
  return static_cast<std::uint16_t>((std::rand() & 1) << 15 | (0x3F00 + (std::rand() & 0xFF)));
}

// c[16][8] = a[16][16] b[16][8]: a row-major, b row-major in shared memory ([k][n]), read transposed.
__global__ void mma_kernel(const std::uint16_t* a, const std::uint16_t* b, float* c) {
  __shared__ __align__(16) std::uint16_t as[16 * 16], bs[16 * 8];
  const int l = threadIdx.x;
  for (int i = l; i < 256; i += 32) as[i] = a[i];
  for (int i = l; i < 128; i += 32) bs[i] = b[i];
  __syncwarp();
  std::uint32_t ra[4], rb[2];
  // Matrices of eight rows: (rows 0-7, k 0-7), (rows 8-15, k 0-7), (rows 0-7, k 8-15), (rows 8-15, k 8-15).
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(address(as + (l % 16) * 16 + (l / 16) * 8)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(address(bs + (l % 16) * 8)));
  float d[4] = {0, 0, 0, 0};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  const int row = l / 4, column = l % 4 * 2;
  c[row * 8 + column] = d[0];
  c[row * 8 + column + 1] = d[1];
  c[(row + 8) * 8 + column] = d[2];
  c[(row + 8) * 8 + column + 1] = d[3];
}
// The same with int8: a[16][32], b given as [8][32], so that a lane's four bytes lie side by side.
__global__ void mma_int8_kernel(const std::int8_t* a, const std::int8_t* b, int* c) {
  const int l = threadIdx.x, g = l / 4, t = l % 4;
  const auto word = [](const std::int8_t* p) { return *reinterpret_cast<const std::uint32_t*>(p); };
  int d[4] = {1, 2, 3, 4};
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(word(a + g * 32 + t * 4)), "r"(word(a + (g + 8) * 32 + t * 4)),
        "r"(word(a + g * 32 + 16 + t * 4)), "r"(word(a + (g + 8) * 32 + 16 + t * 4)),
        "r"(word(b + g * 32 + t * 4)), "r"(word(b + g * 32 + 16 + t * 4)));
  c[g * 8 + t * 2] = d[0] - 1;
  c[g * 8 + t * 2 + 1] = d[1] - 2;
  c[(g + 8) * 8 + t * 2] = d[2] - 3;
  c[(g + 8) * 8 + t * 2 + 1] = d[3] - 4;
}

// Four matrices by stmatrix, transposed, and behind them the first two as they are. Element (r, c) of matrix m is
// 64 m + 8 r + c.
__global__ void stmatrix_kernel(std::uint16_t* out) {
#ifdef ON_HOPPER
  __shared__ __align__(16) std::uint16_t room[6 * 64];
  const int l = threadIdx.x;
  std::uint32_t pair[4];
  for (int m = 0; m < 4; ++m) {
    const std::uint32_t first = m * 64 + l / 4 * 8 + l % 4 * 2;
    pair[m] = first | (first + 1) << 16;
  }
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   address(room + l * 8)),
               "r"(pair[0]), "r"(pair[1]), "r"(pair[2]), "r"(pair[3])
               : "memory");
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0+512], {%1,%2};" ::"r"(
                   address(room + l % 16 * 8)),
               "r"(pair[0]), "r"(pair[1])
               : "memory");
  __syncwarp();
  for (int i = l; i < 6 * 64; i += 32) out[i] = room[i];
#endif
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) || !defined(__CUDA_ARCH__)
#define HAS_WGMMA 1
#endif
// CUTLASS: Swizzle<3,4,3> of byte addresses.
__host__ __device__ inline int swizzled(int byte) {
  return byte ^ ((byte >> 7 & 7) << 4);
}
#ifdef ON_HOPPER
// A box of 64 x 64 by its map.
__device__ void copy_box(unsigned char* to, const CUtensorMap* map, std::uint64_t* bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%2}], [%3];" ::"r"(address(to)),
      "l"(map), "r"(0), "r"(address(bar))
      : "memory");
}
#endif
// c[64][64] = a[64][64] b[64][64]. a K-major: byte 128 m + 2 k. b is [n][k], K-major, or [k][n], MN-major.
// With maps, both come by them and not by stores.
template <bool mn_major>
__global__ void wgmma_kernel(const std::uint16_t* a, const std::uint16_t* b, float* c,
                             const CUtensorMap* map_a, const CUtensorMap* map_b) {
  extern __shared__ __align__(1024) unsigned char room[];
  unsigned char *as = room, *bs = room + 8192;
#ifdef ON_HOPPER
  __shared__ std::uint64_t bar;
  if (map_a != nullptr) {
    if (threadIdx.x == 0) {
      init(&bar, 1);
      fence_init();
      expect_bytes(&bar, 16384);
      copy_box(as, map_a, &bar);
      copy_box(bs, map_b, &bar);
    }
    __syncthreads();
    wait(&bar, 0);
  }
#endif
  for (int i = threadIdx.x; map_a == nullptr && i < 64 * 64; i += 128) {
    *reinterpret_cast<std::uint16_t*>(as + swizzled(i * 2)) = a[i];
    *reinterpret_cast<std::uint16_t*>(bs + swizzled(i * 2)) = b[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[32];
  for (int i = 0; i < 32; ++i) d[i] = 0;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define D8(i)                                                                                 \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
  asm volatile("" : D8(0), D8(8), D8(16), D8(24)::"memory");
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int k = 0; k < 4; ++k) {
    const auto describe = [](std::uint32_t at) {
      return std::uint64_t{(at & 0x3FFFF) >> 4} | std::uint64_t{1} << 16 | std::uint64_t{64} << 32 |
             std::uint64_t{1} << 62;
    };
    const std::uint64_t da = describe(address(as) + k * 32),
                        db = describe(address(bs) + (mn_major ? k * 2048 : k * 32));
#define REGS                                                                                     \
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%" \
  "25,%26,%27,%28,%29,%30,%31}"
    if (mn_major) {
      asm volatile(
          "{.reg .pred p; setp.ne.b32 p, %34, 0; "
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " REGS ", %32, %33, p, 1, 1, 0, 1;}"
          : D8(0), D8(8), D8(16), D8(24)
          : "l"(da), "l"(db), "r"(k));
    } else {
      asm volatile(
          "{.reg .pred p; setp.ne.b32 p, %34, 0; "
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " REGS ", %32, %33, p, 1, 1, 0, 0;}"
          : D8(0), D8(8), D8(16), D8(24)
          : "l"(da), "l"(db), "r"(k));
    }
  }
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
               : D8(0), D8(8), D8(16), D8(24)::"memory");
#endif
  const int w = threadIdx.x / 32, l = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i)
    c[(16 * w + l / 4 + i / 2 % 2 * 8) * 64 + i / 4 * 8 + l % 4 * 2 + i % 2] = d[i];
}

struct single {
  std::uint32_t prmt, bfi, brev, find, funnel, up, down, idx, vote;
  float rm, rn, sat, sign;
  int rni, rzi;
  double reciprocal;
  std::int64_t wide;
  int quotient, remainder, dot;
};
__global__ void single_kernel(const std::uint32_t* in, single* out) {
  const int l = threadIdx.x;
  const std::uint32_t a = in[l], b = in[l + 32], c = in[l + 64];
  single s{};
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(s.prmt) : "r"(a), "r"(b), "r"(c & 0xFFFF));
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(s.bfi) : "r"(a), "r"(b), "r"(c % 40), "r"(a % 40));
  s.brev = __brev(a);
  asm("bfind.shiftamt.u32 %0, %1;" : "=r"(s.find) : "r"(a >> (c % 32)));
  s.funnel = __funnelshift_l(a, b, c);
  s.up = __shfl_up_sync(0xFFFFFFFFU, a, 3);
  s.down = __shfl_down_sync(0xFFFFFFFFU, a, 5, 16);
  s.idx = __shfl_sync(0xFFFFFFFFU, a, static_cast<int>(b), 8);
  s.vote = __ballot_sync(0xFFFFFFFFU, (a & 1) != 0);
  const float x = static_cast<float>(static_cast<int>(a)) * 1e-5F,
              y = static_cast<float>(static_cast<int>(b)) * 1e-7F,
              z = static_cast<float>(static_cast<int>(c)) * 1e-3F;
  s.rm = __fmaf_rd(x, y, z);
  s.rn = __fmaf_rn(x, y, z);
  s.sat = __saturatef(y * 0.02F);
  s.rni = __float2int_rn(x * 7);
  s.rzi = __float2int_rz(x * 1e6F);
  asm("copysign.f32 %0, %1, %2;" : "=f"(s.sign) : "f"(x), "f"(y));
  s.reciprocal = 1.0 / (static_cast<double>(x) + 3e5);
  s.wide = static_cast<std::int64_t>(static_cast<int>(a)) * static_cast<int>(b);
  s.quotient = static_cast<int>(a) / (static_cast<int>(b) | 1);
  s.remainder = static_cast<int>(a) % (static_cast<int>(b) | 1);
  s.dot = __dp4a(static_cast<int>(a), static_cast<int>(b), static_cast<int>(c));
  out[l] = s;
}

// Two buffers that warp 0 fills and warps 1 and 2 read, by barriers that one side only arrives at: 1, 2 a
// buffer is full, 3, 4 it is empty. What is planted: a fault.
enum class planted { nothing, no_arrival, two_counts, early_read, one_too_many, no_wait_for_empty };
template <planted fault>
__global__ void handed_over_kernel(int rounds, int* sums) {
  __shared__ int buffer[2][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto sync = [](int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
  };
  const auto arrive = [](int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
  };
  int sum = 0;
  for (int n = 0; n < rounds; ++n) {
    const int side = n % 2;
    if (warp == 0) {
      if (n >= 2 && fault != planted::no_wait_for_empty) sync(3 + side, 96);
      buffer[side][lane] = n * 32 + lane;
      if (fault != planted::no_arrival || n != 3) arrive(1 + side, 96);
      if (fault == planted::one_too_many && n == 3) arrive(1 + side, 96);
    } else {
      if (fault != planted::early_read || n != rounds - 1) {
        sync(1 + side, fault == planted::two_counts && warp == 2 ? 64 : 96);
      }
      sum += buffer[side][(lane + warp) % 32];
      if (n + 2 < rounds) arrive(3 + side, 96);
    }
  }
  if (warp > 0) sums[threadIdx.x - 32] = sum;
}

// The same by mbarriers and bulk copies: one thread copies rounds of 32 numbers into two buffers, warps 1 and 2
// read them.
enum class bulk { right, count, bytes, parity, not_empty, no_fence, one_try };
template <bulk fault>
__global__ void bulk_kernel(const int* from, int rounds, int* sums) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  __shared__ __align__(16) int buffer[2][32];
  __shared__ std::uint64_t barriers[4];  // full, full, empty, empty
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto full = [&](int n) { return address(&barriers[n % 2]); };
  const auto empty = [&](int n) { return address(&barriers[2 + n % 2]); };
  const auto wait = [](std::uint32_t at, int parity) {
    std::uint32_t done = 0;
    do {
      asm volatile(
          "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, "
          "p;}"
          : "=r"(done)
          : "r"(at), "r"(parity)
          : "memory");
    } while (fault != bulk::one_try && done == 0);
  };
  if (threadIdx.x == 0) {
    for (int n = 0; n < 2; ++n) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full(n)), "r"(1) : "memory");
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty(n)),
                   "r"(fault == bulk::count ? 3 : 2)
                   : "memory");
    }
    if (fault != bulk::no_fence) {
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
  }
  __syncthreads();
  int sum = 0;
  for (int n = 0; n < rounds; ++n) {
    const int parity = n / 2 % 2;
    if (threadIdx.x == 0) {
      if (fault != bulk::not_empty) wait(empty(n), parity ^ 1);
      if (fault == bulk::bytes) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(full(n)) : "memory");
      } else {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full(n)),
                     "r"(128)
                     : "memory");
      }
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
          "[%3];" ::"r"(address(buffer[n % 2])),
          "l"(from + n * 32), "r"(128), "r"(full(n))
          : "memory");
    } else if (warp > 0) {
      wait(full(n), fault == bulk::parity ? parity ^ 1 : parity);
      sum += buffer[n % 2][(lane + warp) % 32];
      __syncwarp();
      if (lane == 0) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty(n)) : "memory");
      }
    }
  }
  if (warp > 0) sums[threadIdx.x - 32] = sum;
#endif
}

enum class gather { right, counted, counted_too, early, not_empty };
// cp.async that an mbarrier waits for: warp 0 gathers 32 numbers a round into two stages, warp 1 reads them.
__global__ void gather_kernel(gather does, const int* from, int rounds, int* sums) {
#ifdef ON_HOPPER
  __shared__ __align__(16) int stage[2][32];
  __shared__ std::uint64_t full[2], empty[2];
  const unsigned lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    for (int n = 0; n < 2; ++n) {
      init(&full[n], 32);
      init(&empty[n], 1);
    }
  }
  __syncthreads();
  int sum = 0;
  for (int n = 0; n < rounds; ++n) {
    const int s = n % 2, parity = n / 2 % 2;
    if (threadIdx.x < 32) {
      if (does != gather::not_empty) wait(&empty[s], parity ^ 1);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address(&stage[s][lane])),
                   "l"(from + n * 32 + (lane * 5 + 3) % 32)
                   : "memory");
      if (does == gather::right || does == gather::not_empty) {
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address(&full[s]))
                     : "memory");
      } else if (does != gather::early) {
        asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(address(&full[s]))
                     : "memory");
      }
      if (does == gather::counted || does == gather::early) {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&full[s]))
                     : "memory");
      }
    } else {
      wait(&full[s], parity);
      sum += stage[s][lane] * 3 + stage[s][31 - lane];
      __syncwarp();
      if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address(&empty[s]))
                     : "memory");
    }
  }
  if (threadIdx.x >= 32) sums[lane] = sum;
#endif
}

// 64 numbers by the bulk engine to global memory.
enum class store { right, no_fence, no_wait, overwritten };
__global__ void store_kernel(store does, int* to) {
#ifdef ON_HOPPER
  __shared__ __align__(16) int room[64];
  room[threadIdx.x] = static_cast<int>(threadIdx.x) * 5;
  if (does != store::no_fence) fence_proxy();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(address(room)), "r"(256)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    if (does == store::overwritten) room[0] = 1;
    if (does != store::no_wait) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    room[1] = 2;
  }
#endif
}
static void check_mma() {
  std::vector<std::uint16_t> a(256), b(128);
  for (auto& h : a) h = small_bf16();
  for (auto& h : b) h = small_bf16();
  float* c = device(std::vector<float>(128, -1));
  mma_kernel<<<1, 32>>>(device(a), device(b), c);
  const auto got = back(c, 128);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      double sum = 0;
      for (int k = 0; k < 16; ++k)
        sum += double{from_bf16(a[m * 16 + k])} * from_bf16(b[k * 8 + n]);
      expect(std::fabs(got[m * 8 + n] - sum) < 1e-4, "mma bf16", m * 8 + n);
    }
  }
}

static void check_mma_int8() {
  std::vector<std::int8_t> a(512), b(256);
  for (auto& h : a) h = static_cast<std::int8_t>(std::rand());
  for (auto& h : b) h = static_cast<std::int8_t>(std::rand());
  int* c = device(std::vector<int>(128, -1));
  mma_int8_kernel<<<1, 32>>>(device(a), device(b), c);
  const auto got = back(c, 128);
  for (int m = 0; m < 16; ++m) {
    for (int n = 0; n < 8; ++n) {
      int sum = 0;
      for (int k = 0; k < 32; ++k) sum += a[m * 32 + k] * b[n * 32 + k];
      expect(got[m * 8 + n] == sum, "mma int8", m * 8 + n);
    }
  }
}

static void check_stmatrix() {
  std::uint16_t* out = device(std::vector<std::uint16_t>(6 * 64));
  stmatrix_kernel<<<1, 32>>>(out);
  const auto got = back(out, 6 * 64);
  for (int i = 0; i < 6 * 64; ++i) {
    const int transposed = i / 64 * 64 + i % 8 * 8 + i / 8 % 8;
    expect(got[i] == (i < 4 * 64 ? transposed : i - 4 * 64), "stmatrix", i);
  }
}

template <bool mn_major>
static void check_wgmma(bool by_maps) {
  std::vector<std::uint16_t> a(4096), b(4096);
  for (auto& h : a) h = small_bf16();
  for (auto& h : b) h = small_bf16();
  float* c = device(std::vector<float>(4096, -1));
  const std::uint16_t *from_a = device(a), *from_b = device(b);
  wgmma_kernel<mn_major><<<1, 128, 16384>>>(from_a, from_b, c, by_maps ? map_of(from_a) : nullptr,
                                            by_maps ? map_of(from_b) : nullptr);
  const auto got = back(c, 4096);
  for (int m = 0; m < 64; ++m) {
    for (int n = 0; n < 64; ++n) {
      double sum = 0;
      for (int k = 0; k < 64; ++k) {
        sum +=
            double{from_bf16(a[m * 64 + k])} * from_bf16(mn_major ? b[k * 64 + n] : b[n * 64 + k]);
      }
      expect(std::fabs(got[m * 64 + n] - sum) < 1e-3, mn_major ? "wgmma MN-major" : "wgmma K-major",
             m * 64 + n);
    }
  }
}

// Rounds of 32 numbers, each lane's its neighbour's.
template <planted fault>
static void check_hand_over() {
  constexpr int rounds = 7;
  int* sums = device(std::vector<int>(64, -1));
  handed_over_kernel<fault><<<1, 96>>>(rounds, sums);
  const auto got = back(sums, 64);
  for (int t = 0; t < 64; ++t) {
    const int from = (t % 32 + 1 + t / 32) % 32;
    expect(got[t] == rounds * (rounds - 1) / 2 * 32 + rounds * from, "bar.arrive", t);
  }
}

template <bulk fault>
static void check_bulk() {
  constexpr int rounds = 9;
  std::vector<int> numbers(rounds * 32);
  for (int& x : numbers) x = std::rand() % 1000;
  int* sums = device(std::vector<int>(64, -1));
  bulk_kernel<fault><<<1, 96>>>(device(numbers), rounds, sums);
  const auto got = back(sums, 64);
  for (int t = 0; t < 64; ++t) {
    int sum = 0;
    for (int n = 0; n < rounds; ++n) sum += numbers[n * 32 + (t % 32 + 1 + t / 32) % 32];
    expect(got[t] == sum, "mbarrier, bulk copy", t);
  }
}

template <gather does>
static void check_gather() {
  constexpr int rounds = 7;
  std::vector<int> numbers(rounds * 32);
  for (int n = 0; n < rounds * 32; ++n) numbers[n] = n * n % 509;
  int* sums = device(std::vector<int>(32, -1));
  gather_kernel<<<1, 64>>>(does, device(numbers), rounds, sums);
  const auto got = back(sums, 32);
  for (int t = 0; t < 32; ++t) {
    int sum = 0;
    for (int n = 0; n < rounds; ++n) {
      sum += numbers[n * 32 + (t * 5 + 3) % 32] * 3 + numbers[n * 32 + ((31 - t) * 5 + 3) % 32];
    }
    expect(got[t] == sum, "cp.async.mbarrier.arrive", t);
  }
}

template <store does>
static void check_store() {
  int* to = device(std::vector<int>(64, -1));
  store_kernel<<<1, 64>>>(does, to);
  const auto got = back(to, 64);
  for (int t = 0; t < 64; ++t) expect(got[t] == 5 * t, "bulk store", t);
}

static void check_bits(const single& s, std::uint32_t a, std::uint32_t b, std::uint32_t c, int l) {
  std::uint32_t p = 0;
  for (int n = 0; n < 4; ++n) {
    const std::uint32_t pick = c >> (4 * n) & 15;
    std::uint32_t byte =
        static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) >> (8 * (pick & 7))) & 255;
    if (pick & 8) byte = byte & 128 ? 255 : 0;
    p |= byte << (8 * n);
  }
  expect(s.prmt == p, "prmt", l);
  const std::uint32_t pos = c % 40, len = a % 40;
  std::uint64_t mask = len >= 32 ? 0xFFFFFFFFU : (1U << len) - 1;
  mask = pos >= 32 ? 0 : mask << pos & 0xFFFFFFFFU;
  expect(s.bfi == ((b & ~mask) | ((pos >= 32 ? 0 : std::uint64_t{a} << pos) & mask)), "bfi", l);
  std::uint32_t r = 0;
  for (int n = 0; n < 32; ++n) r |= (a >> n & 1) << (31 - n);
  expect(s.brev == r, "brev", l);
  const std::uint32_t f = a >> (c % 32);
  expect(s.find == (f == 0 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(__builtin_clz(f))), "bfind",
         l);
  expect(s.funnel == static_cast<std::uint32_t>((std::uint64_t{b} << 32 | a) >> (32 - (c & 31))),
         "shf", l);
}

static void check_lanes(const single& s, const std::vector<std::uint32_t>& in, std::uint32_t b,
                        int l) {
  std::uint32_t ballot = 0;
  for (int n = 0; n < 32; ++n) ballot |= (in[n] & 1) << n;
  expect(s.up == in[l >= 3 ? l - 3 : l], "shfl.up", l);
  expect(s.down == in[l % 16 + 5 < 16 ? l + 5 : l], "shfl.down", l);
  expect(s.idx == in[l / 8 * 8 + b % 8], "shfl.idx", l);
  expect(s.vote == ballot, "vote", l);
}

static void check_numbers(const single& s, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                          int l) {
  const float x = static_cast<float>(static_cast<int>(a)) * 1e-5F,
              y = static_cast<float>(static_cast<int>(b)) * 1e-7F,
              z = static_cast<float>(static_cast<int>(c)) * 1e-3F;
  const long double exact = static_cast<long double>(x) * y + z;
  expect(s.rn == std::fma(x, y, z), "fma.rn", l);
  expect(s.rm <= exact && std::nextafterf(s.rm, INFINITY) > exact, "fma.rm", l);
  const float t = y * 0.02F;
  expect(s.sat == (t < 0 ? 0 : t > 1 ? 1 : t), "cvt.sat", l);
  expect(s.rni == static_cast<int>(std::nearbyintf(x * 7)), "cvt.rni", l);
  const float big = x * 1e6F;
  expect(s.rzi == (big >= 2147483648.0F    ? 2147483647
                   : big <= -2147483648.0F ? -2147483647 - 1
                                           : static_cast<int>(big)),
         "cvt.rzi", l);
  expect(s.sign == std::copysign(y, x), "copysign", l);  // the sign of the first
  expect(s.reciprocal == 1.0 / (static_cast<double>(x) + 3e5), "division of doubles", l);
  expect(s.wide == static_cast<std::int64_t>(static_cast<int>(a)) * static_cast<int>(b), "mul.wide",
         l);
  expect(s.quotient == static_cast<int>(a) / (static_cast<int>(b) | 1) &&
             s.remainder == static_cast<int>(a) % (static_cast<int>(b) | 1),
         "div, rem", l);
  int dot = static_cast<int>(c);
  for (int n = 0; n < 4; ++n)
    dot += static_cast<std::int8_t>(a >> (8 * n)) * static_cast<std::int8_t>(b >> (8 * n));
  expect(s.dot == dot, "dp4a", l);
}

static void check_single_instructions() {
  std::vector<std::uint32_t> in(96);
  for (auto& w : in)
    w = static_cast<std::uint32_t>(std::rand()) * 2654435761U +
        static_cast<std::uint32_t>(std::rand());
  single* out = device(std::vector<single>(32));
  single_kernel<<<1, 32>>>(device(in), out);
  const auto got = back(out, 32);
  for (int l = 0; l < 32; ++l) {
    const std::uint32_t a = in[l], b = in[l + 32], c = in[l + 64];
    check_bits(got[l], a, b, c, l);
    check_lanes(got[l], in, b, l);
    check_numbers(got[l], a, b, c, l);
  }
}

__global__ void sum_kernel(const float* from, int count, float* to) {
  for (int n = 0; n < count; ++n) to[0] += from[n];
}

// A fault that is planted: a kernel reads one element behind what the host allocated for it.
static int read_behind_the_heap() {
  std::vector<float> fifteen(15, 1.0F), sum(1);
  sum_kernel<<<1, 1>>>(fifteen.data(), 16, sum.data());
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}

static const std::vector<planted_case> planted_cases = {
    {"no_arrival", check_hand_over<planted::no_arrival>},
    {"two_counts", check_hand_over<planted::two_counts>},
    {"early_read", check_hand_over<planted::early_read>},
    {"one_too_many", check_hand_over<planted::one_too_many>},
    {"no_wait_for_empty", check_hand_over<planted::no_wait_for_empty>},
    {"mbarrier_count", check_bulk<bulk::count>},
    {"mbarrier_bytes", check_bulk<bulk::bytes>},
    {"mbarrier_parity", check_bulk<bulk::parity>},
    {"mbarrier_not_empty", check_bulk<bulk::not_empty>},
    {"mbarrier_no_fence", check_bulk<bulk::no_fence>},
    {"mbarrier_one_try", check_bulk<bulk::one_try>},
    {"gather_count", check_gather<gather::counted_too>},
    {"gather_early", check_gather<gather::early>},
    {"gather_not_empty", check_gather<gather::not_empty>},
    {"store_no_fence", check_store<store::no_fence>},
    {"store_no_wait", check_store<store::no_wait>},
    {"store_overwritten", check_store<store::overwritten>}};

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "read_behind_the_heap") == 0) return read_behind_the_heap();
  for (const auto* cases : {&planted_cases, &cluster_cases}) {
    for (const planted_case& one : *cases) {
      if (argc < 2 || std::strcmp(argv[1], one.name) != 0) continue;
      one.run();
      return wrong != 0;
    }
  }
  check_mma();
  check_mma_int8();
  cudaFuncAttributes of{};
  cudaFuncGetAttributes(&of, reinterpret_cast<const void*>(wgmma_kernel<false>));
  if (of.binaryVersion == 90) {
    for (const bool by_maps : {false, true}) {
      check_wgmma<false>(by_maps);
      check_wgmma<true>(by_maps);
    }
    check_stmatrix();
    check_bulk<bulk::right>();
    check_gather<gather::right>();
    check_gather<gather::counted>();
    check_store<store::right>();
    check_clusters();
  }
  check_single_instructions();
  check_hand_over<planted::nothing>();
  std::printf("%d wrong\n", wrong);
  return wrong != 0;
}
