// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// Bytes that devices of several ranks move, in launch order with their kernels: NCCL on GPUs
// (nccl.h), the group's own memory under the emulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/base/ranks/group.h"
#include "kernels/cuda/queue.h"

namespace unmask::cuda::UNMASK_TARGET {

// all [ranks, bytes] = the `bytes` of every rank, in rank order; both are device memory. Collective.
void gather_ranks(queue& work, rank_group& group, const void* from, std::size_t bytes, void* all);
// all [ranks, stretch] = of the `bytes` of every rank those of this rank's stretch (rank_group::deal).
void deal_ranks(queue& work, rank_group& group, const void* from, std::size_t bytes,
                std::size_t stretch, void* all);

// Device memory for what moves. Contents are undefined, and valid until the next operation that sums
// over ranks.
enum class rank_slot : std::uint8_t { own, all, sums, before, count };
void* rank_memory(queue& work, rank_slot slot, std::size_t bytes);
template <class T>
T* rank_memory(queue& work, rank_slot slot, std::int64_t count) {
  return static_cast<T*>(rank_memory(work, slot, static_cast<std::size_t>(count) * sizeof(T)));
}

// Whether this memory was allocated by the backend, so that its kernels may write it.
bool owns_memory(const void* address);

}  // namespace unmask::cuda::UNMASK_TARGET
