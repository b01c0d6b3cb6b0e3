// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What several ranks on GPUs need beside their kernels; host-only and free of CUDA headers.
#pragma once

#include <string>

namespace unmask::cuda {

// Environment error, with what was searched, if there is no NCCL or none that serves (nccl.h); or in a
// build without CUDA.
void require_rank_library();
std::string rank_library_version();  // of NCCL, "2.28.9"; as above

}  // namespace unmask::cuda
