// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace unmask::cuda {

struct copy_params {
  const void* from = nullptr;  // 16-byte aligned device memory
  void* to = nullptr;          // same, not overlapping
  std::size_t bytes = 0;       // multiple of 16
  int multiprocessors = 0;
};

cudaError_t launch_copy(const copy_params& params, cudaStream_t stream);

struct multiply_add_params {
  float* out = nullptr;  // [1]; never written
  int rounds = 0;        // of every chain
  int multiprocessors = 0;
};

// *operations: floating-point operations of the launch, a multiply-add counted as 2.
cudaError_t launch_multiply_adds(const multiply_add_params& params, double* operations,
                                 cudaStream_t stream);

enum class random_kind : std::uint8_t { bf16, int8 };

struct random_params {
  void* out = nullptr;  // [count]
  std::size_t count = 0;
  unsigned seed = 0;
  random_kind kind = random_kind::bf16;
};

// Hashes of the index: bfloat16 in [-1, 1), int8 in [-127, 127]. Random, because zeros draw less
// power and let the clock rise.
cudaError_t launch_fill_random(const random_params& params, cudaStream_t stream);

}  // namespace unmask::cuda
