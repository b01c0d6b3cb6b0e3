// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The memory roof. to[i] = from[i] over a buffer many times the size of L2: every byte is read
// once and written once, so bytes moved = 2 * bytes. A bandwidth that another kernel reports is
// divided by what this one reaches on the same device in the same process, never by a data sheet.
//
// Shapes: from, to [bytes / 16] 16-byte words. Each thread keeps `in_flight` loads outstanding
// (Little's law: latency x bandwidth of HBM is more than one word per resident thread), and
// neighbouring threads touch neighbouring words, so every access is a full 128-byte line.
#include "kernels/cuda/roofs.h"

namespace unmask::cuda {
namespace {

constexpr int threads_per_block = 512;
constexpr int blocks_per_multiprocessor = 4;  // 2048 threads: full occupancy
constexpr int in_flight = 4;

__global__ void __launch_bounds__(threads_per_block)
    copy_kernel(const uint4* __restrict__ from, uint4* __restrict__ to, std::size_t words) {
  const std::size_t stride = std::size_t{gridDim.x} * threads_per_block;
  std::size_t i = std::size_t{blockIdx.x} * threads_per_block + threadIdx.x;
  for (; i + (in_flight - 1) * stride < words; i += in_flight * stride) {
    uint4 word[in_flight];
#pragma unroll
    for (int j = 0; j < in_flight; ++j) word[j] = __ldcs(from + i + j * stride);
#pragma unroll
    for (int j = 0; j < in_flight; ++j) __stcs(to + i + j * stride, word[j]);
  }
  for (; i < words; i += stride) __stcs(to + i, __ldcs(from + i));
}

}  // namespace

cudaError_t launch_copy(const copy_params& params, cudaStream_t stream) {
  const int blocks = params.multiprocessors * blocks_per_multiprocessor;
  copy_kernel<<<blocks, threads_per_block, 0, stream>>>(static_cast<const uint4*>(params.from),
                                                        static_cast<uint4*>(params.to),
                                                        params.bytes / sizeof(uint4));
  return cudaGetLastError();
}

}  // namespace unmask::cuda
