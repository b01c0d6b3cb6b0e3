// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#pragma once

// For the few functions that host code and CUDA kernels share.
#if defined(__CUDACC__)
#define UNMASK_HOST_DEVICE __host__ __device__
#else
#define UNMASK_HOST_DEVICE
#endif
