// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the files of the self-test have in common.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ON_HOPPER 1
#endif

inline int wrong = 0;
inline void expect(bool right, const char* what, long at = -1) {
  if (right) return;
  if (++wrong < 20) std::printf("WRONG %s at %ld\n", what, at);
}

__device__ inline std::uint32_t address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

#ifdef ON_HOPPER
__device__ inline void init(std::uint64_t* bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address(bar)), "r"(count)
               : "memory");
}
__device__ inline void fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void expect_bytes(std::uint64_t* bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address(bar)),
               "r"(bytes)
               : "memory");
}
// Two ways out, by labels that every use of it has anew.
__device__ inline void wait(std::uint64_t* bar, int parity) {
  asm volatile(
      "{.reg .pred p;\n"
      "again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done;\n"
      "bra again;\n"
      "done:}" ::"r"(address(bar)),
      "r"(parity)
      : "memory");
}
__device__ inline void fence_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
#endif

template <class T>
T* device(const std::vector<T>& v) {
  void* p = nullptr;
  if (cudaMalloc(&p, v.size() * sizeof(T)) != cudaSuccess) std::exit(2);
  cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice);
  return static_cast<T*>(p);
}
template <class T>
std::vector<T> back(const T* p, std::size_t n) {
  std::vector<T> v(n);
  if (cudaDeviceSynchronize() != cudaSuccess ||
      cudaMemcpy(v.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost) != cudaSuccess) {
    std::printf("WRONG: the device reports an error\n");
    std::exit(1);
  }
  return v;
}

// A map of 64 x 64 numbers of two bytes, with 128-byte swizzle, in device memory.
const CUtensorMap* map_of(const std::uint16_t* numbers);

// A case with a fault that is planted: the machine has to say what CMakeLists.txt expects.
struct planted_case {
  const char* name;
  void (*run)();
};
// Dependent launches, clusters, tensor maps (selftest_clusters.cu): planted, and what is right.
extern const std::vector<planted_case> cluster_cases;
void check_clusters();
