// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// cuBLASLt, opened when it is first needed: it is half a gigabyte, and the program must start on
// machines without CUDA. Where it is looked for: harness/base/shared_library.h; the environment
// variable UNMASK_CUBLASLT names the file.
#pragma once

#include <cublasLt.h>

#include <string>

namespace unmask::cuda {

#define UNMASK_CUBLASLT_FUNCTIONS(X)      \
  X(cublasLtCreate)                       \
  X(cublasLtDestroy)                      \
  X(cublasLtGetStatusString)              \
  X(cublasLtGetVersion)                   \
  X(cublasLtMatmul)                       \
  X(cublasLtMatmulAlgoCheck)              \
  X(cublasLtMatmulAlgoConfigGetAttribute) \
  X(cublasLtMatmulAlgoGetHeuristic)       \
  X(cublasLtMatmulDescCreate)             \
  X(cublasLtMatmulDescDestroy)            \
  X(cublasLtMatmulDescSetAttribute)       \
  X(cublasLtMatmulPreferenceCreate)       \
  X(cublasLtMatmulPreferenceDestroy)      \
  X(cublasLtMatmulPreferenceSetAttribute) \
  X(cublasLtMatrixLayoutCreate)           \
  X(cublasLtMatrixLayoutDestroy)

struct cublaslt_functions {
#define UNMASK_CUBLASLT_MEMBER(name) decltype(&::name) name = nullptr;
  UNMASK_CUBLASLT_FUNCTIONS(UNMASK_CUBLASLT_MEMBER)
#undef UNMASK_CUBLASLT_MEMBER
  std::string path;  // the file
};

// Throws an environment error that names the files tried.
const cublaslt_functions& cublaslt();

}  // namespace unmask::cuda
