// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Copies of boxes of a matrix, and the barriers in shared memory to which they report, for kernels of both builds
// (portable.h). One thread starts a copy and goes on. Only machine code for sm_90a has them (queue::has_wgmma).
//
//   box_map                        a matrix of bfloat16, and how many of its rows a box has (box_maps.h). A kernel has
//                                  it in its argument, which is UNMASK_ARGUMENT.
//   copy_box(to, map, column, row, bar)
//                                  copies 64 columns of the map's rows, from these ones on, to shared memory: rows of
//                                  128 bytes, swizzled as wgmma reads them. Zeros for what is outside of the matrix.
//                                  `to` is a multiple of 1024. The barrier of this block hears of the bytes.
//   copy_box_to_pair(...)          the same to both blocks of a cluster of two, at the same place of each. The barrier
//                                  at the same place of each block hears of its bytes.
//   start_phases(bar, arrivals)    makes a barrier, whose phases end when so many arrivals and all bytes that were
//                                  announced have come. One thread makes all, then calls publish_phases(), and all
//                                  threads of the cluster meet (sync_cluster) before anyone uses them.
//   arrive_with_bytes(bar, bytes)  an arrival that announces bytes of copies, of all blocks
//   arrive_at(bar)                 an arrival
//   arrive_at_peer(bar, rank)      an arrival at the barrier at the same place of block `rank`, which
//                                  wait_for_peer() waits for there. It waits for the warp's writes to memory.
//   wait_phase(bar, parity)        waits until the last phase of this parity has ended; the first has parity 0, and
//                                  1 does not wait at first. What copies brought, and what threads of the block did
//                                  before they arrived, is seen behind it.
//   wait_for_peer(bar, parity)     the same, of what threads of other blocks did
#pragma once

#include "kernels/cuda/device/clusters.h"

#if defined(__CUDACC__)

#define UNMASK_ARGUMENT const __grid_constant__

namespace unmask::cuda::native {

// As the driver makes it.
struct alignas(128) box_map {
  unsigned char bytes[128];
};
using phase_barrier = std::uint64_t;

UNMASK_DEVICE void start_phases(phase_barrier* bar, int arrivals) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(bar)), "r"(arrivals)
               : "memory");
#endif
}
UNMASK_DEVICE void publish_phases() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
#endif
}
UNMASK_DEVICE void arrive_with_bytes(phase_barrier* bar, int bytes) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(bar)),
      "r"(bytes)
      : "memory");
#endif
}
UNMASK_DEVICE void arrive_at(phase_barrier* bar) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(bar)) : "memory");
#endif
}
UNMASK_DEVICE void arrive_at_peer(phase_barrier* bar, int rank) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(
                   peer_address(bar, rank))
               : "memory");
#endif
}
UNMASK_DEVICE void wait_phase(phase_barrier* bar, int parity) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra again;\n}\n" ::"r"(shared_address(bar)),
      "r"(parity)
      : "memory");
#endif
}
UNMASK_DEVICE void wait_for_peer(phase_barrier* bar, int parity) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1;\n"
      "@!ended bra again;\n}\n" ::"r"(shared_address(bar)),
      "r"(parity)
      : "memory");
#endif
}
UNMASK_DEVICE void copy_box(void* to, const box_map& map, int column, int row, phase_barrier* bar) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%2, %3}], [%4];\n" ::"r"(shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(bar))
      : "memory");
#endif
}
UNMASK_DEVICE void copy_box_to_pair(void* to, const box_map& map, int column, int row,
                                    phase_barrier* bar) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(shared_address(to)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(bar)), "h"(static_cast<std::uint16_t>(3))
      : "memory");
#endif
}

}  // namespace unmask::cuda::native

#else

#define UNMASK_ARGUMENT const

namespace unmask::cuda::emulator {

struct box_map {
  const std::uint16_t* data;
  std::int64_t rows, columns, apart;  // apart: elements from a row to the next
  int box_rows;
};
// At the place of `bar`, which is in shared memory.
void start_phases(const void* bar, int arrivals);
void arrive_at_phase(const void* bar, int bytes, unsigned rank);
void wait_phase(const void* bar, int parity);
// To each block of the cluster whose bit is set.
void copy_box(void* to, const box_map& map, int column, int row, const void* bar, unsigned blocks);

// Between emulator.cpp and emulator_boxes.cpp. A cluster begins; copies land, and whether there were any.
void forget_boxes();
bool land_boxes();
bool copies_land_at_once();
void wait_for_change(const unsigned* word);  // until it is another
const void* of_peer(const void* own, std::size_t bytes, unsigned rank, std::size_t alignment);

}  // namespace unmask::cuda::emulator

namespace unmask::cuda::emulated {

using emulator::box_map;
using phase_barrier = std::uint64_t;

inline void start_phases(phase_barrier* bar, int arrivals) {
  emu::start_phases(bar, arrivals);
}
inline void publish_phases() {}
inline void arrive_with_bytes(phase_barrier* bar, int bytes) {
  emu::arrive_at_phase(bar, bytes, emu::rank_in_cluster());
}
inline void arrive_at(phase_barrier* bar) {
  emu::arrive_at_phase(bar, 0, emu::rank_in_cluster());
}
inline void arrive_at_peer(phase_barrier* bar, int rank) {
  emu::arrive_at_phase(bar, 0, static_cast<unsigned>(rank));
}
inline void wait_phase(phase_barrier* bar, int parity) {
  emu::wait_phase(bar, parity);
}
inline void wait_for_peer(phase_barrier* bar, int parity) {
  emu::wait_phase(bar, parity);
}
inline void copy_box(void* to, const box_map& map, int column, int row, phase_barrier* bar) {
  emu::copy_box(to, map, column, row, bar, 1U << emu::rank_in_cluster());
}
inline void copy_box_to_pair(void* to, const box_map& map, int column, int row,
                             phase_barrier* bar) {
  emu::copy_box(to, map, column, row, bar, 3);
}

}  // namespace unmask::cuda::emulated

#endif
