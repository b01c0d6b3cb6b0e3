// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// NCCL, which moves bytes between the GPUs of several ranks. It is opened when it is first needed and
// declared here, without its header. It only moves: what is added, and in which order, is said by our
// own kernels (ranks_kernels.h), because the sums of NCCL depend on the size of a message.
//
// Where it is looked for: harness/base/shared_library.h; UNMASK_NCCL names the file.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/base/ranks/group.h"

namespace unmask::cuda {

using nccl_communicator = void*;
struct nccl_id {
  char bytes[128];
};
// The first fields of ncclConfig_t; the library fills in those behind `size` bytes.
struct nccl_config {
  std::size_t size = sizeof(nccl_config);
  unsigned magic = 0xCAFEBEEFU;
  unsigned version = 21400;  // NCCL 2.14.0, which brought the field below
  int blocking = 0;
  int unused = 0;
};
inline constexpr int nccl_success = 0, nccl_in_progress = 7;  // ncclResult_t
inline constexpr int nccl_byte = 0;                           // ncclInt8

// Name, result and arguments; a result of int is an ncclResult_t.
#define UNMASK_NCCL_FUNCTIONS(X)                                                                 \
  X(ncclGetVersion, int, (int*))                                                                 \
  X(ncclGetUniqueId, int, (nccl_id*))                                                            \
  X(ncclCommInitRankConfig, int, (nccl_communicator*, int, nccl_id, int, nccl_config*))          \
  X(ncclCommGetAsyncError, int, (nccl_communicator, int*))                                       \
  X(ncclCommAbort, int, (nccl_communicator))                                                     \
  X(ncclGetErrorString, const char*, (int))                                                      \
  X(ncclGetLastError, const char*, (nccl_communicator))                                          \
  X(ncclAllGather, int, (const void*, void*, std::size_t, int, nccl_communicator, cudaStream_t)) \
  X(ncclSend, int, (const void*, std::size_t, int, int, nccl_communicator, cudaStream_t))        \
  X(ncclRecv, int, (void*, std::size_t, int, int, nccl_communicator, cudaStream_t))              \
  X(ncclGroupStart, int, ())                                                                     \
  X(ncclGroupEnd, int, ())

struct nccl_functions {
#define UNMASK_NCCL_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  UNMASK_NCCL_FUNCTIONS(UNMASK_NCCL_MEMBER)
#undef UNMASK_NCCL_MEMBER
  std::string path;  // the file
  int version = 0;   // 10000 major + 100 minor + patch
};

// Environment error that names the files tried, or the file that lacks something.
const nccl_functions& nccl();
std::string nccl_version_text(int version);  // "2.28.9"

// all [ranks, bytes] = the `bytes` of every rank, in the stream's order; both are device memory. A group's
// first call joins the GPUs, which needs equal ones: an environment error names what differs. Collective.
// `recorded`: the stream is captured, and the call counts whenever it is repeated.
void gather_by_nccl(rank_group& group, const void* from, std::size_t bytes, void* all,
                    cudaStream_t stream, bool recorded);
// The same of a stretch of every rank's bytes, all [ranks, stretch] (rank_group::deal).
void deal_by_nccl(rank_group& group, const void* from, std::size_t bytes, std::size_t stretch,
                  void* all, cudaStream_t stream, bool recorded);

// What a recording moves whenever it is repeated.
struct recorded_moves {
  rank_group* group = nullptr;  // null: nothing
  std::uint64_t calls = 0, bytes = 0;
};
recorded_moves take_recorded_moves();  // since the last call
void count_recorded(const recorded_moves& moves);

// cudaStreamSynchronize(), which ends with rank_failure if the stream waits for a rank that has failed.
void wait_for_stream(cudaStream_t stream);

}  // namespace unmask::cuda
