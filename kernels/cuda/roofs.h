// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace unmask::cuda {

struct copy_params {
  const void* from = nullptr;  // 16-byte aligned device memory
  void* to = nullptr;          // same, not overlapping
  std::size_t bytes = 0;       // multiple of 16
  int multiprocessors = 0;
};

cudaError_t launch_copy(const copy_params& params, cudaStream_t stream);

}  // namespace unmask::cuda
