// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// The roofs, and the numbers they are measured on.
//
// Memory: to[i] = from[i] over a buffer many times the size of L2: every byte is read
// once and written once, so bytes moved = 2 * bytes. A bandwidth that another kernel reports is
// divided by what this one reaches on the same device in the same process, never by a data sheet.
//
// Shapes: from, to [bytes / 16] 16-byte words. Each thread keeps `in_flight` loads outstanding
// (Little's law: latency x bandwidth of HBM is more than one word per resident thread), and
// neighbouring threads touch neighbouring words, so every access is a full 128-byte line.
#include "kernels/cuda/roofs.h"

#include <cuda_bf16.h>

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

// Arithmetic: each thread carries `chains` sums that do not wait for each other, more than the four
// cycles of a multiply-add ask for; all operands are registers.
constexpr int chains = 16;

__global__ void __launch_bounds__(threads_per_block)
    multiply_add_kernel(float* __restrict__ out, int rounds) {
  const float a = 0.5F + static_cast<float>(threadIdx.x) * 1e-4F;
  const float b = static_cast<float>(blockIdx.x) * 1e-3F;
  float sum[chains];
#pragma unroll
  for (int c = 0; c < chains; ++c) sum[c] = static_cast<float>(c);
#pragma unroll 8
  for (int r = 0; r < rounds; ++r) {
#pragma unroll
    for (int c = 0; c < chains; ++c) sum[c] = fmaf(sum[c], a, b);
  }
  float all = 0;
#pragma unroll
  for (int c = 0; c < chains; ++c) all += sum[c];
  if (all == -1.0F) *out = all;  // never: sums of numbers that are not negative
}

// MurmurHash3's finalizer, with the seed between its rounds: added to the index before them,
// neighbouring seeds would give tensors that are each other's, a few elements on.
__device__ unsigned hash(std::size_t i, unsigned seed) {
  unsigned h = static_cast<unsigned>(i);
  h ^= h >> 16;
  h *= 0x85EBCA6BU;
  h ^= (h >> 13) + seed * 0x9E3779B9U;
  h *= 0xC2B2AE35U;
  h ^= h >> 16;
  h *= 0x85EBCA6BU;
  return h ^ (h >> 13);
}

__global__ void fill_random_kernel(random_params p) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < p.count;
       i += stride) {
    const unsigned h = hash(i, p.seed);
    if (p.kind == random_kind::bf16) {
      static_cast<__nv_bfloat16*>(p.out)[i] =
          __float2bfloat16(static_cast<float>(h) * (2.0F / 4294967296.0F) - 1.0F);
    } else {
      static_cast<std::int8_t*>(p.out)[i] =
          static_cast<std::int8_t>(static_cast<int>(h % 255) - 127);
    }
  }
}

}  // namespace

cudaError_t launch_copy(const copy_params& params, cudaStream_t stream) {
  const int blocks = params.multiprocessors * blocks_per_multiprocessor;
  copy_kernel<<<blocks, threads_per_block, 0, stream>>>(static_cast<const uint4*>(params.from),
                                                        static_cast<uint4*>(params.to),
                                                        params.bytes / sizeof(uint4));
  return cudaGetLastError();
}

cudaError_t launch_multiply_adds(const multiply_add_params& params, double* operations,
                                 cudaStream_t stream) {
  const int blocks = params.multiprocessors * blocks_per_multiprocessor;
  *operations = 2.0 * chains * params.rounds * threads_per_block * blocks;
  multiply_add_kernel<<<blocks, threads_per_block, 0, stream>>>(params.out, params.rounds);
  return cudaGetLastError();
}

cudaError_t launch_fill_random(const random_params& params, cudaStream_t stream) {
  fill_random_kernel<<<4096, 256, 0, stream>>>(params);
  return cudaGetLastError();
}

}  // namespace unmask::cuda
