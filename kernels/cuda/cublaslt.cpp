// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

#include "harness/base/error.h"
#include "harness/base/shared_library.h"
#include "kernels/cuda/product_library.h"

namespace unmask::cuda {
namespace {

static_assert(CUBLAS_VER_MAJOR == 13, "harness/base/shared_library.h asks for another version");

cublaslt_functions open_functions() {
  const shared_library found = open_shared_library(cublaslt_library(UNMASK_CUBLASLT_FILE));
  if (found.handle == nullptr) {
    throw environment_error("cannot open cuBLASLt (tried " + found.tried +
                            "); install it, name the file in UNMASK_CUBLASLT, or set "
                            "UNMASK_CUDA_GEMM=own");
  }
  cublaslt_functions f;
  f.path = found.path;
#define UNMASK_LOAD(name)                                                  \
  f.name = reinterpret_cast<decltype(f.name)>(dlsym(found.handle, #name)); \
  if (f.name == nullptr) throw environment_error(found.path + " has no " #name);
  UNMASK_CUBLASLT_FUNCTIONS(UNMASK_LOAD)
#undef UNMASK_LOAD
  return f;
}

}  // namespace

const cublaslt_functions& cublaslt() {
  static const cublaslt_functions functions = open_functions();
  return functions;
}

std::string product_library() {
  try {
    return cublaslt().path + " " + std::to_string(cublaslt().cublasLtGetVersion());
  } catch (const error&) {
    return "none";
  }
}

}  // namespace unmask::cuda
