// SPDX-License-Identifier: Apache-2.0
// Copyright The Unmask Authors
//
// What the modules share: problems, which are sentences and no exceptions for the program, and a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

#include "kernels/libraries/way.h"

namespace unmask::libraries {

inline std::string& last_problem() {
  static std::string text;
  return text;
}

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}

// Does `work`. An exception becomes the last problem, and `failed` is returned.
template <class Result, class Work>
Result guarded(Result failed, const Work& work) {
  try {
    return work();
  } catch (const std::exception& problem) {
    last_problem() = problem.what();
  } catch (...) {
    last_problem() = "an exception without words";
  }
  return failed;
}

// Of the module, on the GPU of the thread that asks first. Never destroyed: the driver may have ended before.
inline cudaStream_t module_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    return made;
  }();
  return stream;
}

inline int wait_for_module() {
  return guarded(1, [] {
    check(cudaStreamSynchronize(module_stream()), "cudaStreamSynchronize");
    return 0;
  });
}

inline const char* words_of_last_problem() {
  return last_problem().c_str();
}

}  // namespace unmask::libraries
