// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "harness/base/error.h"

namespace unmask::cuda {

// Throws with the call, the place and CUDA's name for the error. Clears the sticky error, so that
// the next call is not blamed for this one.
inline void check(cudaError_t status, const char* call, const char* file, int line) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw environment_error(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                          cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

}  // namespace unmask::cuda

#define UNMASK_CUDA_CALL(call) ::unmask::cuda::check((call), #call, __FILE__, __LINE__)
