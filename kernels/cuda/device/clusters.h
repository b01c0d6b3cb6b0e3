// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Clusters: blocks that run at the same time and read each other's shared memory, for kernels of both
// builds (portable.h). The launch says how many blocks a cluster has (grid_shape::cluster). Only machine
// code for sm_90a has them (queue::has_wgmma).
//
//   cluster_rank()           the block's number in its cluster
//   sync_cluster()           waits for all threads of the cluster. Who passes sees what the others wrote to
//                            shared memory before they came.
//   read_peer(x, own, rank)  reads what block `rank` has at the place of `own`, which is in shared memory and
//                            aligned to the size of x. The peer has to be kept: it must have come to a
//                            sync_cluster() before, and it may not end before another one.
#pragma once

#include "kernels/cuda/device/portable.h"

#if defined(__CUDACC__)

namespace unmask::cuda::native {

UNMASK_DEVICE int cluster_rank() {
  int rank = 0;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
#endif
  return rank;
}
UNMASK_DEVICE void sync_cluster() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}
UNMASK_DEVICE std::uint32_t peer_address(const void* own, int rank) {
  std::uint32_t at = 0;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
               : "=r"(at)
               : "r"(shared_address(own)), "r"(rank));
#endif
  return at;
}
UNMASK_DEVICE void read_peer(float (&x)[2], const float* own, int rank) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];\n"
               : "=f"(x[0]), "=f"(x[1])
               : "r"(peer_address(own, rank))
               : "memory");
#endif
}
UNMASK_DEVICE void read_peer(float (&x)[4], const float* own, int rank) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(peer_address(own, rank))
               : "memory");
#endif
}

}  // namespace unmask::cuda::native

#else

namespace unmask::cuda::emulated {

inline int cluster_rank() {
  return static_cast<int>(emu::rank_in_cluster());
}
inline void sync_cluster(const emu::where& place = emu::where::current()) {
  emu::cluster_barrier(place);
}
template <int count>
void read_peer(float (&x)[count], const float* own, int rank) {
  static_assert(count == 2 || count == 4);
  std::memcpy(x, emu::of_peer(own, sizeof x, static_cast<unsigned>(rank)), sizeof x);
}

}  // namespace unmask::cuda::emulated

#endif
